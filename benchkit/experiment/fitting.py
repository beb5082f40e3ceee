"""A request fitted to its build: settings as that version has and accepts them, and its client."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from benchkit.measure.record import TrialRequest
from benchkit.postgres.builds import Build
from benchkit.postgres.settings import translate
from benchkit.postgres.values import same_defaults, written

OWN_CLIENT = "own"


def fitted(
    request: TrialRequest, *, alike: Sequence[Build], own_client: bool
) -> tuple[TrialRequest, list[str]]:
    """Fit a request to its build.

    Parameters
    ----------
    alike
        The builds that are to have the same settings; where their defaults differ, the setting is
        set, unless the request has it. Empty: defaults stay.
    own_client
        Take the pgbench of the build itself, where it has one.

    Returns
    -------
    tuple
        The request, and a note for each thing that is not as it was asked for.
    """
    settings = written(request.settings, request.build)
    if alike:
        settings |= same_defaults(alike, request.build, settings)
    settings, notes = translate(settings, request.build)
    client = request.client
    if own_client and request.build.pgbench:
        client = request.build
    elif own_client:
        notes.append(
            f"PostgreSQL {request.build.version} in {request.build.bin_dir} has no pgbench of its "
            f"own: pgbench {client.pgbench} drives it"
        )
    return dataclasses.replace(request, settings=settings, client=client), notes
