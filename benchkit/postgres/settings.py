"""PostgreSQL settings: what a build knows, whether a value will do, and whether it is in effect.

The build itself is asked, so that there is no list here to grow old: ``postgres --describe-config``
names its settings, ``postgres -C`` (9.2 on) judges a value.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchkit.errors import Faults, FormatError, nearest
from benchkit.postgres.account import account
from benchkit.postgres.builds import Build, reachable
from benchkit.postgres.versions import has
from benchkit.units import MEMORY_BYTES, TIME_US, memory_bytes, parse_quantity

Value = str | int | float | bool

# Where a server listens and lives is benchkit's business; the rest is the user's.
RESERVED = frozenset(
    {
        "config_file", "data_directory", "external_pid_file", "hba_file", "ident_file",
        "listen_addresses", "logging_collector", "port", "unix_socket_directories",
        "unix_socket_directory", "unix_socket_permissions",
    }
)  # fmt: skip

# Values that mean "choose for me": what is in effect is another value, by design.
_AUTOMATIC = {
    "wal_buffers": "-1", "autovacuum_work_mem": "-1", "huge_page_size": "0",
    "commit_timestamp_buffers": "0", "subtransaction_buffers": "0", "transaction_buffers": "0",
}  # fmt: skip

# Release notes 9.5: max_wal_size = 3 * checkpoint_segments * 16MB.
_PAIRS: dict[str, tuple[str, Callable[[str], str]]] = {
    "checkpoint_segments": ("max_wal_size", lambda text: f"{3 * int(text) * 16}MB"),
    "max_wal_size": (
        "checkpoint_segments",
        lambda text: str(max(1, round(memory_bytes(text) / 3 / 16 / 1024**2))),
    ),
}

# Old names that a newer server takes and shows under the new one (guc.c, xlog.c 9.6).
_SYNONYMS = {"wal_level": {"archive": "replica", "hot_standby": "replica"}}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting as a build describes it.

    Attributes
    ----------
    kind
        ``bool``, ``integer``, ``real``, ``string`` or ``enum``.
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
    """
    done = reachable(build).run("postgres", "--describe-config")
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
        new_name, new_value = name, value
        if name not in known and name in _PAIRS and _PAIRS[name][0] in known:
            try:
                new_name, new_value = _PAIRS[name][0], _PAIRS[name][1](text_of(value))
                notes.append(
                    f"PostgreSQL {build.version}: {name}={text_of(value)} became "
                    f"{new_name}={new_value}"
                )
            except (ValueError, FormatError):
                new_name = name  # what is wrong with it is said by the check of its name
        translated[new_name] = new_value
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
    known = catalogue(build)
    label = f"PostgreSQL {build.version}"
    for name, value in settings.items():
        place = f"{where} {name}"
        text = text_of(value)
        folded = name.lower()
        found = known.get(name) or known.get(folded)
        if folded in RESERVED:
            faults.add(place, "is set by benchkit itself (a private Unix socket, no TCP)")
        elif "\n" in text or "\r" in text or "\0" in text:
            faults.add(place, f"the value {text!r} has a line break or a zero byte")
        elif found and (problem := _bad_number(text, found.kind)):
            faults.add(place, f"{problem}, for {label}")
        elif "." not in name and (problem := _refused(build, name, text, found is not None)):
            hint = "" if found else nearest(name, known)
            faults.add(place, f"{problem}{hint}, for {label}")


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
def _refused(build: Build, name: str, text: str, known: bool) -> str | None:
    """Ask the server program whether it takes a value; give its reason if it does not."""
    if not name.replace("_", "").isalnum() or not name.isascii():
        return f"{name!r} is no name of a setting"
    if not has(build.version, "postgres -C"):
        return None if known else f"unknown setting {name!r}"
    with tempfile.TemporaryDirectory(prefix="benchkit-") as place:
        (Path(place) / "postgresql.conf").touch(0o644)
        Path(place).chmod(0o700)
        account().own(Path(place))
        done = reachable(build).run("postgres", "-D", place, "-C", name, "-c", f"{name}={text}")
    if done.exit_code == 0:
        return None
    if "unrecognized configuration parameter" in done.stderr:
        return f"unknown setting {name!r}"
    keep = ("FATAL:", "DETAIL:", "HINT:", "LOG:")
    reasons = [
        line.partition(":  ")[2]
        for line in done.stderr.splitlines()
        if any(k in line for k in keep)
    ]
    return "; ".join(reasons) or done.stderr.strip() or f"{text!r} is refused"


# Said elsewhere in a record, or the same in every server of benchkit.
_EVERYDAY = RESERVED | {
    "default_text_search_config", "dynamic_shared_memory_type", "lc_messages", "lc_monetary",
    "lc_numeric", "lc_time", "log_destination", "log_timezone", "timezone",
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
        elif _AUTOMATIC.get(name) != text and not _equal(name, text, row):
            wrong[name] = (text, f"{row['setting']}{row.get('unit') or ''}")
    return wrong


def _equal(name: str, asked: str, row: Mapping[str, Any]) -> bool:
    shown = str(row["setting"])
    folded = _SYNONYMS.get(name, {}).get(asked.lower(), asked.lower())
    if folded == shown.lower():
        return True
    switches = {"on": True, "true": True, "yes": True, "1": True}
    switches |= {"off": False, "false": False, "no": False, "0": False}
    if row.get("vartype") == "bool":
        return switches.get(folded) == switches.get(shown.lower())
    try:
        # The server rounds to whole units; a person's 1.5GB may lie between two of them.
        return abs(_in_units(asked, row.get("unit")) - float(shown)) < 1
    except (FormatError, ValueError):
        return False


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
