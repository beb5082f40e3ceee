"""Names for builds that tell them apart."""

from __future__ import annotations

from collections.abc import Sequence

from benchkit.errors import Fault, InputError
from benchkit.postgres.builds import Build


def labelled_builds(builds: Sequence[Build]) -> dict[str, Build]:
    """Label builds by version, and by directory too where several are of one version.

    Returns
    -------
    dict
        Label -> build, as levels of a factor: ``{"9.4devel (8800d8)": ...}`` for a build in
        ``/opt/8800d8/bin``.

    Raises
    ------
    InputError
        One build is there twice.
    """
    versions = [build.label for build in builds]
    named: dict[str, Build] = {}
    for build in builds:
        label = build.label
        if versions.count(label) > 1:
            alike = [other for other in builds if other.label == label]
            label = f"{label} ({_telling_path(build, alike)})"
        if label in named:
            raise InputError([Fault(where="build", problem=f"{label} is there twice")])
        named[label] = build
    return named


def _telling_path(build: Build, alike: Sequence[Build]) -> str:
    """Give the end of a build's directory, as short as tells it from the others."""
    parts = build.bin_dir.parent.parts
    for length in range(1, len(parts)):
        ends = [other.bin_dir.parent.parts[-length:] for other in alike]
        if ends.count(parts[-length:]) == 1:
            return "/".join(parts[-length:])
    return str(build.bin_dir.parent)
