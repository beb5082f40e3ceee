"""The scripts of a workload: built into pgbench or files of one's own, each with its weight."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchkit.errors import Faults, nearest
from benchkit.postgres.account import account
from benchkit.postgres.versions import Version, has

BUILTINS = {"tpcb-like": [], "simple-update": ["-N"], "select-only": ["-S"]}
# What pgbench accepts, as it says itself (15 and 18 tried).
MOST_SCRIPTS = 128
MOST_WEIGHT = 2**31 - 1
_SAFE_STEM = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, kw_only=True)
class Script:
    """One script of a workload.

    Attributes
    ----------
    name
        One of :data:`BUILTINS`, or the path of a file.
    weight
        How often it is chosen, relative to the weights of the others.
    """

    name: str
    weight: int = 1

    @property
    def builtin(self) -> bool:
        """Whether it is one of pgbench's own."""
        return self.name in BUILTINS


def scripts_of(script: str | Mapping[str, int]) -> tuple[Script, ...]:
    """List the scripts of a workload, in the order in which pgbench numbers them from 0."""
    mix = {script: 1} if isinstance(script, str) else script
    return tuple(Script(name=name, weight=weight) for name, weight in mix.items())


def own_texts(scripts: Iterable[Script], known: Mapping[str, str]) -> dict[str, str]:
    """Give the text of each script that is a file, by its path: a known one, else read now.

    Raises
    ------
    OSError, UnicodeError
        A file cannot be read as UTF-8.
    """
    return {
        name: known[name] if name in known else Path(name).read_text("utf-8")
        for name in (script.name for script in scripts if not script.builtin)
    }


def check_mix(script: object, faults: Faults) -> bool:
    """Check the form of a script or a mix, without a look at the files.

    Returns
    -------
    bool
        Whether names are texts and weights numbers, so that :func:`scripts_of` can be used.
    """
    if isinstance(script, str):
        return True
    if not isinstance(script, Mapping):
        problem = "neither the name or path of a script nor a mapping script -> weight"
        faults.add("script", f"{script!r} is {problem}")
        return False
    sound = True
    for name, weight in script.items():
        if not isinstance(name, str):
            faults.add("script", f"{name!r} is not the name or path of a script")
            sound = False
        if type(weight) is not int:  # True is no weight
            faults.add("script", f"weight of {name!r}: {weight!r} is not a whole number")
            sound = False
        elif not 0 <= weight <= MOST_WEIGHT:
            faults.add("script", f"weight of {name!r}: {weight} is not from 0 to {MOST_WEIGHT}")
    if len(script) > MOST_SCRIPTS:
        faults.add("script", f"{len(script)} scripts: pgbench takes at most {MOST_SCRIPTS}")
    if all(type(weight) is int and weight == 0 for weight in script.values()):
        faults.add("script", f"{dict(script)!r}: no script has a weight above 0")
    return sound


def is_file(name: str, directory: str | Path = "") -> bool:
    """Tell whether a path leads to a file; whatever text is no path, or too long for one, not."""
    return os.path.isfile(os.path.join(directory, name))  # noqa: PTH113, PTH118 (they never raise)


def check_scripts(
    scripts: Sequence[Script], known: Mapping[str, str], version: Version, faults: Faults
) -> dict[str, str]:
    """Check the scripts against a version of pgbench and the disk.

    Returns
    -------
    dict of str
        Path -> text of those that can be read.
    """
    if not has(version, "pgbench -b") and [script.weight for script in scripts] != [1]:
        problem = f"pgbench {version} runs one script, of weight 1; several need 9.6 or later"
        faults.add("script", problem)
    texts: dict[str, str] = {}
    for script in scripts:
        name = script.name
        if not (script.builtin or name in known or is_file(name)):
            names = nearest(name, BUILTINS)
            faults.add("script", f"{name!r} is neither a built-in script nor a file{names}")
            continue
        try:
            texts |= own_texts([script], known)
        except (OSError, UnicodeError) as error:
            faults.add("script", f"{name} cannot be read as UTF-8: {error}")
    return texts


def place_scripts(texts: Mapping[str, str], directory: Path) -> dict[str, Path]:
    """Put scripts where the account that runs pgbench can read them.

    Parameters
    ----------
    texts
        Path -> text.

    Returns
    -------
    dict of Path
        Path -> the file in `directory`. It keeps the stem of the path, since pgbench's report names
        it, where that is made of letters, digits, ``_`` and ``-``; else it is ``script-1.sql`` or a
        later number.
    """
    placed: dict[str, Path] = {}
    taken: set[str] = set()
    for name, text in texts.items():
        stem = _free_stem(Path(name).stem, taken)
        taken.add(stem.lower())  # some file systems do not tell case apart
        placed[name] = directory / f"{stem}.sql"
        placed[name].write_text(text, encoding="utf-8")
        account().own(placed[name])
    return placed


def _free_stem(stem: str, taken: set[str]) -> str:
    wanted = [stem] if _SAFE_STEM.fullmatch(stem) else []
    base, first = (stem, 2) if wanted else ("script", 1)
    numbered = (f"{base}-{number}" for number in itertools.count(first))
    free = (name for name in itertools.chain(wanted, numbered) if name.lower() not in taken)
    return next(free)


def script_arguments(
    scripts: Iterable[Script], version: Version, placed: Mapping[str, Path]
) -> list[str]:
    """Write the arguments that name the scripts.

    Every one carries its weight from 9.6 on, since an ``@`` in a path would be taken for one.
    """
    words: list[str] = []
    weighted = has(version, "pgbench -b")
    for script in scripts:
        weight = f"@{script.weight}" if weighted else ""
        if not script.builtin:
            words += ["-f", f"{placed[script.name]}{weight}"]
        else:
            words += ["-b", f"{script.name}{weight}"] if weighted else BUILTINS[script.name]
    return words
