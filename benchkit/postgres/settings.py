"""PostgreSQL settings: what a build knows, whether a value will do, and whether it is in effect.

The build itself is asked, so that there is no list here to grow old: ``postgres --describe-config``
names its settings, ``postgres -C`` (9.2 on) judges a value.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchkit.errors import BuildError, Faults, FormatError, nearest
from benchkit.postgres.account import Finished
from benchkit.postgres.builds import Build, reachable
from benchkit.postgres.versions import has
from benchkit.units import MEMORY_BYTES, TIME_US, memory_bytes, parse_quantity, spelled

Value = str | int | float | bool

# Where a server listens and lives is benchkit's business; the rest is the user's.
RESERVED = frozenset(
    {
        "config_file", "data_directory", "external_pid_file", "hba_file", "ident_file",
        "listen_addresses", "log_destination", "log_timezone", "logging_collector", "port",
        "timezone", "unix_socket_directories", "unix_socket_directory", "unix_socket_permissions",
    }
)  # fmt: skip

# guc-file.l: a name, or one with the prefix of its extension.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)?")

# Values that mean "choose for me": what is in effect is another value, by design.
_AUTOMATIC = {
    "wal_buffers": "-1", "autovacuum_work_mem": "-1", "huge_page_size": "0",
    "io_max_concurrency": "-1", "commit_timestamp_buffers": "0", "subtransaction_buffers": "0",
    "transaction_buffers": "0",
}  # fmt: skip


def _same(text: str) -> str:
    return text


_SEGMENT_BYTES = 16 * 1024**2
# Old name -> (new name, value of the new by that of the old). Release notes 9.5 (max_wal_size is 3
# checkpoint_segments of 16 MB), 13 (wal_keep_size is wal_keep_segments of 16 MB), 8.3.
_PAIRS: dict[str, tuple[str, Callable[[str], str]]] = {
    "checkpoint_segments": ("max_wal_size", lambda text: f"{3 * int(text) * 16}MB"),
    "max_wal_size": ("checkpoint_segments", lambda text: str(max(1, _segments(text, 3)))),
    "wal_keep_segments": ("wal_keep_size", lambda text: f"{int(text) * 16}MB"),
    "wal_keep_size": ("wal_keep_segments", lambda text: str(_segments(text, 1))),
    "stats_row_level": ("track_counts", _same),
    "track_counts": ("stats_row_level", _same),
}


def _segments(text: str, each: int) -> int:
    return round(memory_bytes(spelled(text)) / each / _SEGMENT_BYTES)


# Old names that a newer server takes and shows under the new one (guc.c, xlog.c 9.6).
_SYNONYMS = {"wal_level": {"archive": "replica", "hot_standby": "replica"}}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting as a build describes it.

    Attributes
    ----------
    kind
        ``boolean``, ``integer``, ``real``, ``string`` or ``enum``.
    context
        When it may be changed: ``postmaster`` needs a restart, ``internal`` cannot be set.
    """

    name: str
    context: str
    kind: str
    default: str


@functools.cache
def catalogue(build: Build) -> dict[str, Setting]:
    """List the settings of a build, without starting a server.

    Settings that PostgreSQL keeps out of its sample file (developer options) are not in it.

    Raises
    ------
    BuildError
        The server program does not run.
    """
    done = reachable(build).run("postgres", "--describe-config")
    if done.exit_code != 0:
        raise BuildError(
            f"PostgreSQL {build.version} does not describe its settings", evidence=done.evidence
        )
    rows = (line.split("\t") for line in done.stdout.splitlines() if line.count("\t") >= 4)
    return {
        row[0]: Setting(name=row[0], context=row[1], kind=row[3].lower(), default=row[4])
        for row in rows
    }


def translate(settings: Mapping[str, Value], build: Build) -> tuple[dict[str, Value], list[str]]:
    """Write settings with the names that a build knows, where a pair of names is known.

    Returns
    -------
    tuple
        The settings, and a note for each one that was translated.
    """
    known = catalogue(build)
    translated: dict[str, Value] = {}
    notes = []
    for name, value in settings.items():
        other = _PAIRS[name][0] if name not in known and name in _PAIRS else ""
        if other not in known:
            translated[name] = value
            continue
        try:
            said = f"{name}={text_of(value)}"
            meant = _PAIRS[name][1](text_of(value))
        except (ValueError, FormatError):
            translated[name] = value  # what is wrong with it is said by the check of its name
            continue
        if other in settings:
            notes.append(f"PostgreSQL {build.version}: {said} gave way to {other}, also asked for")
        else:
            translated[other] = meant
            notes.append(f"PostgreSQL {build.version}: {said} became {other}={meant}")
    return translated, notes


def text_of(value: Value) -> str:
    """Write a value as the configuration file has it: True becomes ``on``."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def render(settings: Mapping[str, Value]) -> str:
    """Write settings as a configuration file, every value quoted."""
    lines = []
    for name, value in settings.items():
        escaped = text_of(value).replace("\\", "\\\\").replace("'", "''")
        lines.append(f"{name} = '{escaped}'\n")
    return "".join(lines)


def check_settings(
    settings: Mapping[str, Value], build: Build, faults: Faults, *, where: str = "settings"
) -> None:
    """Check settings against a build before anything is started.

    Unknown names, names that are benchkit's own, wrong units and values that the server refuses are
    added to `faults`, all of them.
    """
    known = {name.lower(): setting for name, setting in catalogue(build).items()}
    label = f"PostgreSQL {build.version}"
    for name, value in settings.items():
        place = f"{where} {name}"
        text = text_of(value)
        found = known.get(name.lower())
        if not _NAME.fullmatch(name):
            faults.add(where, f"{name!r} is no name of a setting")
        elif name.lower() in RESERVED:
            faults.add(place, "is set by benchkit itself, the same in every server")
        elif "\n" in text or "\r" in text or "\0" in text:
            faults.add(place, f"the value {text!r} has a line break or a zero byte")
        elif found and (problem := _bad_number(text, found.kind)):
            faults.add(place, f"{problem}, for {label}")
        elif problem := _refused(name, text, build, found=found is not None):
            hint = "" if found else nearest(name, known)
            faults.add(place, f"{problem}{hint}, for {label}")


def as_shown(settings: Mapping[str, Value], build: Build) -> dict[str, str]:
    """Write values as the server will show them: ``wal_compression=on`` is ``pglz`` from 15 on.

    Only from 9.2 on; before that, and for extensions' settings, they stay as they are written.
    """
    shown = {}
    for name, value in settings.items():
        done = _judged(build, name, text_of(value))
        shown[name] = done.stdout.strip() if done and done.exit_code == 0 else text_of(value)
    return shown


def _bad_number(text: str, kind: str) -> str | None:
    if kind not in ("integer", "real"):
        return None
    try:
        number, unit = parse_quantity(text)
    except FormatError as error:
        return error.message
    if kind == "integer" and not unit and number != int(number):
        # From 12 on the server would round it without a word.
        return f"{text!r} is not a whole number"
    return None


@functools.lru_cache(maxsize=4096)
def _judged(build: Build, name: str, text: str) -> Finished | None:
    """Let the server program judge a value, without a data directory; None if it cannot."""
    if "." in name or not has(build.version, "postgres -C"):
        return None
    words = ["-C", name, "-D", "/", "-c", "config_file=/dev/null", "-c", f"{name}={text}"]
    return reachable(build).run("postgres", *words)


def _refused(name: str, text: str, build: Build, *, found: bool) -> str | None:
    """Give the reason why the server would not take a value."""
    done = _judged(build, name, text)
    if done is None:
        return None if found or "." in name else f"unknown setting {name!r}"
    if done.exit_code == 0:
        return None
    if "unrecognized configuration parameter" in done.stderr:
        return f"unknown setting {name!r}"
    keep = ("FATAL:", "DETAIL:", "HINT:")
    reasons = [
        line.partition(":  ")[2]
        for line in done.stderr.splitlines()
        if any(k in line for k in keep)
    ]
    return "; ".join(reasons) or done.stderr.strip() or f"{text!r} is refused"


# Said elsewhere in a record, or the same in every server of benchkit.
_EVERYDAY = RESERVED | {
    "default_text_search_config", "dynamic_shared_memory_type", "lc_messages", "lc_monetary",
    "lc_numeric", "lc_time",
}  # fmt: skip


def not_default(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Pick the settings that someone set, with their values as people write them.

    Parameters
    ----------
    rows
        Rows of ``pg_settings``.
    """
    unset = ("default", "client", "override", "session")
    return {
        row["name"]: show_setting(row["setting"], row.get("unit"))
        for row in rows
        if row["source"] not in unset and row["name"].lower() not in _EVERYDAY
    }


def show_setting(setting: str, unit: str | None) -> str:
    """Write a value of ``pg_settings`` with its unit: 32768 in units of ``8kB`` is ``256MB``."""
    if not unit or not setting.lstrip("-").isdigit() or int(setting) <= 0:
        return setting + (unit or "" if setting not in ("-1", "0") else "")
    factor, base = parse_quantity(unit if unit[0].isdigit() else "1" + unit)
    table = MEMORY_BYTES if base in MEMORY_BYTES else TIME_US
    amount = round(int(setting) * factor * table[base])
    largest = max(
        (name for name in table if amount % table[name] == 0), key=lambda name: table[name]
    )
    return f"{amount // table[largest]}{largest}"


def not_in_effect(
    asked: Mapping[str, Value], rows: Iterable[Mapping[str, Any]]
) -> dict[str, tuple[str, str]]:
    """Compare what was asked with what the server says.

    Parameters
    ----------
    rows
        Rows of ``pg_settings`` with name, setting, unit and vartype (may be missing before 9.0).

    Returns
    -------
    dict
        The settings that are not in effect: name -> (asked, in effect).
    """
    effective = {row["name"].lower(): row for row in rows}
    wrong = {}
    for name, value in asked.items():
        row = effective.get(name.lower())
        text = text_of(value)
        if row is None:
            wrong[name] = (text, "not there")
            continue
        # What our own session set for itself is not what the server has for others.
        own = row.get("source") == "session"
        shown = str(row.get("reset_val", row["setting"]) if own else row["setting"])
        if _AUTOMATIC.get(name.lower()) != text and not _equal(name.lower(), text, shown, row):
            wrong[name] = (text, f"{shown}{row.get('unit') or ''}")
    return wrong


def _equal(name: str, asked: str, shown: str, row: Mapping[str, Any]) -> bool:
    if shown.lower() in (asked.lower(), _SYNONYMS.get(name, {}).get(asked.lower())):
        return True
    if row.get("vartype") in ("bool", "enum"):
        return _switch(asked) is not None and _switch(asked) == _switch(shown)
    try:
        _, given = parse_quantity(asked)
        if row.get("vartype") == "real" or not given:
            # Shown with six digits.
            return math.isclose(_in_units(asked, row.get("unit")), float(shown), rel_tol=1e-5)
        # The server rounds to whole units; a person's 1.5GB may lie between two of them.
        return abs(_in_units(asked, row.get("unit")) - float(shown)) < 1
    except (FormatError, ValueError):
        return False


def _switch(text: str) -> bool | None:
    """Read a switch as bool.c does: any beginning of a word that is clear."""
    folded = text.lower()
    if folded in ("1", "on") or (
        folded and ("true".startswith(folded) or "yes".startswith(folded))
    ):
        return True
    if folded in ("0", "of", "off") or (
        folded and ("false".startswith(folded) or "no".startswith(folded))
    ):
        return False
    return None


def _in_units(text: str, unit: str | None) -> float:
    """Convert a value to the unit in which the server shows it (which may be ``8kB``)."""
    number, given = parse_quantity(text)
    if not given or not unit:
        return number
    factor, base = parse_quantity(unit if unit[0].isdigit() else "1" + unit)
    table = MEMORY_BYTES if given in MEMORY_BYTES else TIME_US
    if base not in table:
        raise FormatError(f"{text!r} is not in units of {unit}")
    return number * table[given] / (factor * table[base])
