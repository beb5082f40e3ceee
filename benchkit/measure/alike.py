"""Whether builds were compiled alike: else a comparison is one of compilations, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchkit.measure.finding import Finding
from benchkit.measure.record import TrialRequest
from benchkit.postgres.builds import Build
from benchkit.postgres.defaults import common_value, differing_defaults
from benchkit.postgres.flags import code_flags, code_options
from benchkit.postgres.settings import catalogue
from benchkit.postgres.values import OTHER_NAMES

NONE = "nothing of the kind"


def differences_of_builds(builds: Iterable[Build]) -> list[Finding]:
    """Find the builds that were not compiled as the first one was.

    Compared are the configure flags, the compiler and CFLAGS, as far as they change the code:
    directories, names and warnings do not. The same program found twice is one build.

    Parameters
    ----------
    builds
        As many as are compared, in any order.

    Returns
    -------
    list of Finding
        One for each build that differs from the first, or of which it is unknown.
    """
    distinct = list({build.fingerprint: build for build in builds}.values())
    findings = []
    for other in distinct[1:]:
        differing = _differences(distinct[0], other)
        if differing:
            findings.append(
                Finding(
                    severity="warning",
                    name="builds compiled differently",
                    evidence=f"{_names(distinct[0], other)}: {'; '.join(differing)}",
                    fix="compare two builds by one builder with the same flags (one package "
                    "source, or compiled alike by yourself); else the difference may be theirs",
                )
            )
    return findings


def differing_defaults_left(requests: Sequence[TrialRequest]) -> list[Finding]:
    """Find the settings whose defaults differ between the builds and that are set nowhere."""
    left = {
        name: values
        for name, values in differing_defaults(request.build for request in requests).items()
        if not all(_sets(request, name) for request in requests)
    }
    if not left:
        return []
    return [
        Finding(
            severity="warning",
            name="defaults differ between versions",
            evidence="; ".join(f"{name}: {_by_version(values)}" for name, values in left.items()),
            fix="same_settings=True sets them alike; or say that the defaults are the question",
        )
    ]


def _by_version(values: Mapping[str, str]) -> str:
    return ", ".join(f"{value or NONE} in {text}" for text, value in values.items())


def made_alike(requests: Sequence[TrialRequest]) -> list[Finding]:
    """Say what was set because the defaults of the builds differ."""
    builds = [request.build for request in requests]
    shown = ", ".join(f"{name}={common_value(name, builds)}" for name in differing_defaults(builds))
    if not shown:
        return []
    return [
        Finding(
            severity="info",
            name="defaults made alike",
            evidence=f"where a build has the setting and none was asked for: {shown}",
            fix="name a setting to choose another value for all",
        )
    ]


def _sets(request: TrialRequest, name: str) -> bool:
    """Tell whether a request sets it, under any name, or its build has nothing to set."""
    names = {name, OTHER_NAMES.get(name, name)}
    asked = {key.lower() for key in request.settings}
    return bool(names & asked) or not names & {key.lower() for key in catalogue(request.build)}


def _names(one: Build, other: Build) -> str:
    names = [f"PostgreSQL {build.version} ({build.origin})" for build in (one, other)]
    if names[0] == names[1]:
        names = [f"PostgreSQL {build.version} in {build.bin_dir}" for build in (one, other)]
    return " and ".join(names)


def _differences(one: Build, other: Build) -> list[str]:
    texts = _only_in("configure flags", code_options(one.configure), code_options(other.configure))
    if one.compiler != other.compiler:
        texts.append(f"compiler {one.compiler or 'unknown'} against {other.compiler or 'unknown'}")
    return texts + _only_in("CFLAGS", code_flags(one.cflags), code_flags(other.cflags))


def _only_in(what: str, one: Sequence[str] | None, other: Sequence[str] | None) -> list[str]:
    if one is None or other is None:
        unknown = [name for name, flags in (("first", one), ("second", other)) if flags is None]
        return [f"{what} of the {' and the '.join(unknown)} are unknown"]
    sides = (("first", one, other), ("second", other, one))
    return [
        f"{what} only in the {name}: {' '.join(only)}"
        for name, these, those in sides
        if (only := [flag for flag in dict.fromkeys(these) if flag not in those])
    ]
