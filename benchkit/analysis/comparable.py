"""Whether the reports of several machines may be compared, and in what they differ.

Two levels of a factor inside one report are what that report is about: each aspect is the set of
all that a report has of it, and the sets are compared.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from benchkit.experiment.design import digest
from benchkit.experiment.ledger import Record
from benchkit.postgres.flags import code_flags, code_options
from benchkit.units import by_size, show_bytes

Weight = Literal["must be alike", "hardware", "the question"]
Read = Callable[[Record], set[str]]
Records = Mapping[str, Record]

WEIGHTS: tuple[Weight, ...] = ("must be alike", "hardware", "the question")
MEMORY_SHARE = 0.05  # guests of one size differ by what their kernels keep for themselves
UNKNOWN, NONE, DEFAULT = "unknown", "none", "default"

_PLACE_SETTING = re.compile(r".*_(?:directory|directories|file|path)|timezone|log_timezone", re.I)
# Fields of a workload that are compared in another way, or do not act on what is measured.
_OTHER_FIELDS = {"script", "script_texts", "seed", "time_limit_s"}
_DEVICE = re.compile(r"/dev/(nvme|mmcblk|mapper|md|dm|[a-z]+d)")


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing in which reports differ.

    Attributes
    ----------
    what
        Its name.
    values
        Label of the report -> what it has, as text; of flags only those that not all have.
    weight
        What follows: "must be alike", such reports cannot be compared; "hardware", it may be the
        reason for what they show; "the question", it is what they are compared for.
    """

    what: str
    values: Mapping[str, str]
    weight: Weight


@dataclass(frozen=True, kw_only=True)
class Comparability:
    """Whether reports may be compared, as the kind of a note, and why, in words."""

    kind: Literal["good", "warning", "bad"]
    text: str


def differences(records: Records) -> list[Difference]:
    """List in what reports differ, the worst first.

    Parameters
    ----------
    records
        Label -> record, as :func:`~benchkit.analysis.side_by_side.read_reports` gives them.
    """
    found = itertools.chain(
        *(_compared(what, records, read, "must be alike") for what, read in _ALIKE.items()),
        *(_compared(what, records, read, "must be alike", flags=True) for what, read in _FLAGS),
        _by_name("setting", records, _setting_names, _setting),
        _by_name("workload", records, _field_names, _field),
        _by_name("levels of", records, _group_names, _levels),
        *(_compared(what, records, _fact(name), "hardware") for what, name in _HARDWARE.items()),
        _memory(records),
        _device(records),
        *(_compared(what, records, _fact(*name), "the question") for what, name in _QUESTION),
    )
    return sorted(found, key=lambda difference: WEIGHTS.index(difference.weight))


def may_compare(found: Sequence[Difference]) -> Comparability:
    """Say whether reports with these differences may be compared, and why not.

    ``good``: nothing but what is asked about differs. ``warning``: the hardware differs. ``bad``:
    something differs that must be alike.
    """
    alike, hardware, question = (
        ", ".join(item.what for item in found if item.weight == weight) for weight in WEIGHTS
    )
    if alike:
        text = f"These reports cannot be compared. What must be alike differs: {alike}."
        more = f" The hardware differs as well: {hardware}." if hardware else ""
        return Comparability(kind="bad", text=text + more)
    if hardware:
        text = f"The hardware differs ({hardware}): it may be the reason for what is seen here."
        return Comparability(kind="warning", text=text)
    asked = f"only what is asked about differs: {question}" if question else "nothing differs"
    return Comparability(kind="good", text=f"These reports may be compared: {asked}.")


def one_machine(records: Records) -> str:
    """Say which reports come from one and the same machine, in a sentence; "" if none do.

    Told by the same start of the kernel, or the same host name and processor.
    """
    pairs = []
    for (first, one), (second, other) in itertools.combinations(records.items(), 2):
        names = [tuple(_host(record, name) for name in _NAMES) for record in (one, other)]
        if _boots(one) & _boots(other):
            pairs.append(f"{first} and {second} (in one run of its kernel)")
        elif names[0] == names[1] and None not in names[0]:
            pairs.append(f"{first} and {second} (the same host name and processor)")
    who = "Both reports" if len(records) == 2 else "Reports"
    return f"{who} come from one machine: {'; '.join(pairs)}." if pairs else ""


_NAMES = ("hostname", "cpu_model")


def _boots(record: Record) -> set[str]:
    hosts = [record.specification["host"], *(entry.get("host", {}) for entry in record.entries)]
    return {host["boot_id"] for host in hosts if isinstance(host.get("boot_id"), str)}


# Comparing


def _compared(
    what: str, records: Records, read: Read, weight: Weight, *, flags: bool = False
) -> Iterator[Difference]:
    sets = {label: read(record) for label, record in records.items()}
    shared = set.intersection(*sets.values()) if sets else set()
    if any(found != shared for found in sets.values()):
        left = {label: found - shared if flags else found for label, found in sets.items()}
        texts = {label: ", ".join(by_size(sorted(found))) or NONE for label, found in left.items()}
        yield Difference(what=what, values=texts, weight=weight)


def _by_name(
    kind: str, records: Records, names: Read, read: Callable[[Record, str], set[str]]
) -> Iterator[Difference]:
    """Compare what each report names itself: settings, fields of the workload, factors."""
    for name in sorted(set().union(*map(names, records.values()))):

        def read_one(record: Record, name: str = name) -> set[str]:
            return read(record, name)

        yield from _compared(f"{kind} {name}", records, read_one, "must be alike")


def _memory(records: Records) -> Iterator[Difference]:
    sizes = {label: _memory_bytes(record) for label, record in records.items()}
    known = [size for size in sizes.values() if size is not None]
    span = max(known, default=0) - min(known, default=0)
    if known and (len(known) < len(sizes) or span > MEMORY_SHARE * max(known)):
        texts = {k: UNKNOWN if size is None else show_bytes(size) for k, size in sizes.items()}
        yield Difference(what="memory", values=texts, weight="hardware")


def _memory_bytes(record: Record) -> int | None:
    sizes = [_host(record, name) for name in ("memory_bytes", "memory_limit_bytes")]
    return min((size for size in sizes if isinstance(size, int)), default=None)


def _device(records: Records) -> Iterator[Difference]:
    """Compare the kinds of the devices, where all of them are known."""
    devices = [str(_host(record, "filesystem_device")) for record in records.values()]
    kinds = [_DEVICE.match(device) for device in devices]
    if len({kind[1] if kind else None for kind in kinds}) > 1 and None not in kinds:
        values = dict(zip(records, devices, strict=True))
        yield Difference(what="kind of device", values=values, weight="hardware")


# Reading


def _host(record: Record, name: str) -> Any:
    return record.specification["host"].get(name)


def _fact(*names: str) -> Read:
    def read(record: Record) -> set[str]:
        values = [_host(record, name) for name in names]
        return {" ".join(_word(value) for value in values if value is not None) or UNKNOWN}

    return read


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return UNKNOWN if value is None else str(value)


def _asked(record: Record) -> list[Mapping[str, Any]]:
    return [cell["asked"] for cell in record.specification["cells"]]


def _of_cells(read: Callable[[Mapping[str, Any]], Any]) -> Read:
    return lambda record: {_word(read(asked)) for asked in _asked(record)}


def _flags_of(read: Callable[[Mapping[str, Any]], Sequence[str] | None]) -> Read:
    """Collect flags of the builds, each with its version if a report has several."""

    def collect(record: Record) -> set[str]:
        builds = {asked["build"]["version"]: asked["build"] for asked in _asked(record)}
        flags = {version: read(build) for version, build in builds.items()}
        return {
            f"{version}: {flag}" if len(builds) > 1 else flag
            for version, found in flags.items()
            for flag in ([UNKNOWN] if found is None else found)
        }

    return collect


def _scripts(record: Record) -> set[str]:
    """Name the scripts; those of one's own by their text, since paths differ between machines."""
    found = set()
    for workload in (asked["workload"] for asked in _asked(record)):
        script, texts = workload["script"], workload.get("script_texts") or {}
        for name, weight in {script: 1}.items() if isinstance(script, str) else script.items():
            own = f" (text {digest({'text': texts[name]})[:8]})" if name in texts else ""
            share = "" if isinstance(script, str) else f"@{weight}"
            found.add(f"{PurePath(name).name if own else name}{share}{own}")
    return found


def _setting_names(record: Record) -> set[str]:
    asked = [asked["settings"] for asked in _asked(record)]
    names = set().union(*asked, *(entry["effective"] for entry in record.entries))
    return {name for name in names if not _PLACE_SETTING.fullmatch(name)}


def _setting(record: Record, name: str) -> set[str]:
    """Give what was in effect in the trials; what was asked for where that does not tell."""
    seen = [entry["effective"] for entry in record.entries if entry["effective"]]
    effective = {values.get(name, DEFAULT) for values in seen}
    asked = {_word(asked["settings"].get(name, DEFAULT)) for asked in _asked(record)}
    return effective if effective - {DEFAULT} else asked


def _field_names(record: Record) -> set[str]:
    return set().union(*(asked["workload"] for asked in _asked(record))) - _OTHER_FIELDS


def _field(record: Record, name: str) -> set[str]:
    return {_word(asked["workload"].get(name)) for asked in _asked(record)}


def _group_names(record: Record) -> set[str]:
    """Name the factors that are neither a setting nor a field of the workload nor the build."""
    known = set().union(*(asked["settings"] for asked in _asked(record)))
    return set(record.specification["factors"]) - known - _field_names(record) - {"script", "build"}


def _levels(record: Record, name: str) -> set[str]:
    return set(record.specification["factors"].get(name, ()))


_ALIKE: Mapping[str, Read] = {
    "PostgreSQL version": _of_cells(lambda asked: asked["build"]["version"]),
    "compiler": _of_cells(lambda asked: asked["build"]["compiler"]),
    "assertions": _of_cells(lambda asked: asked["build"].get("assertions")),
    "client pgbench": _of_cells(lambda asked: asked["client"]["pgbench"]),
    "checksums": _of_cells(lambda asked: asked["checksums"]),
    "SQL after loading": _of_cells(lambda asked: "; ".join(asked["sql"]) or NONE),
    "scripts": _scripts,
    "benchkit version": lambda record: {str(record.specification["benchkit"])},
}
_FLAGS = (
    ("configure flags", _flags_of(lambda build: code_options(build["configure"]))),
    ("CFLAGS", _flags_of(lambda build: code_flags(build["cflags"]))),
)
_HARDWARE = {
    "processor": "cpu_model",
    "architecture": "machine",
    "usable cores": "usable_cores",
    "virtual machine": "hypervisor",
    "file system": "filesystem_type",
}
_QUESTION = (
    ("operating system", ("os_name", "os_version")),
    ("kernel", ("kernel",)),
    ("C library", ("libc",)),
    ("host name", ("hostname",)),
    ("Python", ("python_version",)),
)
