"""The append-only record of an experiment on disk, kept so that nothing measured is lost.

::

    <runs>/<experiment>/<run id>/
        experiment.json    the specification, the order and the host; written once
        trials.jsonl       one line a trial, appended and synced
        stopped.json       why and after how many rounds it ended, if that was not its last
        series/<key>.parquet   second by second
        logs/<key>/        raw output of pgbench, the server's log

Files of a trial are written and synced before its line: a line is there only when all of it is. A
torn last line (the machine died while it was written) is dropped, and said so.

Format (``format`` in experiment.json):

1. First version.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from benchkit.errors import BusyError, FormatError
from benchkit.measure.trial import Trial

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1


def project_root() -> Path | None:
    """Find the project that the working directory lies in: it has notebooks/ and pyproject.toml."""
    here = Path.cwd()
    for place in (here, *here.parents):
        if (place / "notebooks").is_dir() and (place / "pyproject.toml").is_file():
            return place
    return None


def runs_dir() -> Path:
    """Give the directory of all runs: ``BENCHKIT_RUNS``, else ``data/runs`` of the project.

    The same in JupyterLab, where the working directory is the notebook's, and under papermill,
    where it is the caller's. Outside a project it is ``data/runs`` of the working directory.
    """
    place = os.environ.get("BENCHKIT_RUNS")
    return (
        Path(place).expanduser().absolute()
        if place
        else ((project_root() or Path.cwd()) / "data" / "runs")
    )


@dataclass(frozen=True, kw_only=True)
class Record:
    """An experiment as it stands on disk: its specification and the trials so far.

    Attributes
    ----------
    entries
        Trials as plain data, in the order they were measured.
    notes
        What a reader should know, such as a torn line that was dropped.
    stopped
        ``rounds`` and ``reason``, where the run ended before its last round because enough was
        known; else None.
    """

    directory: Path
    specification: Mapping[str, Any]
    entries: list[dict[str, Any]]
    notes: tuple[str, ...] = field(default=())
    stopped: Mapping[str, Any] | None = None

    @property
    def planned(self) -> int:
        """How many trials the specification asks for, up to the round it was stopped after."""
        if search := self.specification.get("search"):
            return len(self.entries) if self.stopped else int(search["most_trials"])
        order = self.specification["order"]
        return sum(len(cells) for cells in order[: self.stopped and self.stopped["rounds"]])

    @property
    def may_end_early(self) -> bool:
        """Whether `planned` is the most, since the run ends when enough is known."""
        asked = self.specification.get("until") or self.specification.get("search")
        return bool(asked) and self.stopped is None

    @property
    def complete(self) -> bool:
        """Whether every planned trial is recorded; of a search, whether it came to its end."""
        if self.specification.get("search"):
            return self.stopped is not None
        return len(self.entries) >= self.planned

    def series(self, key: str) -> pd.DataFrame | None:
        """Read a trial's second-by-second progress, None where it has none."""
        import pandas as pd

        path = self.directory / "series" / f"{key}.parquet"
        return pd.read_parquet(path) if path.exists() else None


class Ledger:
    """The one writer of a run's directory.

    Parameters
    ----------
    directory
        A run's directory with its ``experiment.json``.

    Raises
    ------
    BusyError
        Another process writes to it.
    FormatError
        The specification is of another format.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = _locked(directory / ".lock")
        try:
            self.record = read_record(directory)
            self._drop_torn_line()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def create(directory: Path, specification: Mapping[str, Any]) -> Ledger:
        """Start a run: write its specification, then take it over."""
        for name in ("series", "logs"):
            (directory / name).mkdir(parents=True)
        for place in (directory.parent.parent, directory.parent):
            _sync_path(place)
        text = json.dumps({"format": FORMAT, **specification}, indent=1, default=str)
        write_synced(directory / "experiment.json", text + "\n")
        return Ledger(directory)

    def append(self, key: str, trial: Trial, context: Mapping[str, Any]) -> dict[str, Any]:
        """Record one finished trial.

        Parameters
        ----------
        context
            Which trial it is: key, cell, round, position.

        Returns
        -------
        dict
            The entry as it was written.
        """
        line = json.dumps({"key": key, **context, **trial.record()}, allow_nan=False, default=str)
        entry: dict[str, Any] = json.loads(line)  # what a reader of the file gets
        logs = self.directory / "logs" / key
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir()
        for name, text in trial.texts.items():
            write_synced(logs / name, text)
        if trial.progress:
            self._write_series(key, trial)
        for place in (logs.parent, self.directory / "series"):
            _sync_path(place)
        with (self.directory / "trials.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            _sync(file)
        if not self.record.entries:
            _sync_path(self.directory)
        self.record.entries.append(entry)
        return entry

    def stop(self, rounds: int, reason: str, **more: Any) -> None:
        """Record that enough was measured after so many whole rounds: the run is then complete.

        What else is known at the end goes with it, as plain data.
        """
        stopped = {"rounds": rounds, "reason": reason, **more}
        write_synced(self.directory / "stopped.json", json.dumps(stopped) + "\n")
        self.record = replace(self.record, stopped=stopped)

    def _write_series(self, key: str, trial: Trial) -> None:
        import pandas as pd

        path = self.directory / "series" / f"{key}.parquet"
        frame = pd.DataFrame([asdict(second) for second in trial.progress])
        frame.to_parquet(path, compression="zstd", index=False)
        _sync_path(path)

    def _drop_torn_line(self) -> None:
        path = self.directory / "trials.jsonl"
        if path.exists():
            content = path.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole != len(content):
                with path.open("rb+") as file:
                    file.truncate(whole)

    def close(self) -> None:
        """Give the run free for others."""
        # Removed while it is held: whoever waits for it then sees that its file is gone.
        with contextlib.suppress(OSError):
            (self.directory / ".lock").unlink()
        self._lock.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _locked(path: Path) -> IO[str]:
    while True:
        file = path.open("w", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise BusyError(f"another process writes to {path.parent}") from None
        # The holder before us may have removed the file between our open and our lock.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()


def read_record(directory: Path) -> Record:
    """Read a run's specification and trials.

    Raises
    ------
    FormatError
        A file is missing, of another format, or damaged before its last line.
    """
    specification = _read_specification(directory)
    entries, notes = _read_lines(directory / "trials.jsonl")
    return Record(
        directory=directory,
        specification=specification,
        entries=entries,
        notes=tuple(notes),
        stopped=_read_stopped(directory / "stopped.json"),
    )


def _read_stopped(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        stopped = json.loads(path.read_text("utf-8"))
        known = {"rounds": int(stopped["rounds"]), "reason": str(stopped["reason"])}
        return {**stopped, **known}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise FormatError(f"{path} cannot be read", evidence=str(error)) from error


def _read_specification(directory: Path) -> dict[str, Any]:
    path = directory / "experiment.json"
    try:
        specification = json.loads(path.read_text("utf-8"))
        found = specification.get("format")
    except (OSError, ValueError, AttributeError) as error:
        raise FormatError(f"{path} cannot be read", evidence=str(error)) from error
    if found != FORMAT:
        raise FormatError(
            f"{path} has format {found}, this benchkit reads {FORMAT}",
            advice="use the benchkit version that wrote it",
        )
    return dict(specification)


def _read_lines(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    if not path.exists():
        return [], []
    content = path.read_bytes()
    whole, _, torn = content.rpartition(b"\n")
    notes = [f"a torn last line of {len(torn)} bytes was dropped"] if torn else []
    entries = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            entries.append(_entry(line))
        except ValueError as error:
            raise FormatError(
                f"{path}, line {number} is damaged",
                evidence=f"{error}: {line[:80]!r}",
                advice="repair or remove the line; fresh=True begins a new run beside this one",
            ) from error
    return entries, notes


def _entry(line: bytes) -> dict[str, Any]:
    entry = json.loads(line)
    if not isinstance(entry, dict) or "key" not in entry:
        raise ValueError("not the record of a trial")
    return entry


def unfinished(directory: Path, specification_hash: str) -> Iterator[Path]:
    """List the runs of an experiment that have this specification and lack trials, newest first.

    Raises
    ------
    FormatError
        One of them is damaged: it is not passed over, since what it holds was measured.
    """
    for path in sorted(directory.glob("*/experiment.json"), reverse=True):
        try:
            specification = _read_specification(path.parent)
        except FormatError:
            continue  # another format's
        if specification.get("specification_hash") != specification_hash:
            continue
        if not read_record(path.parent).complete:
            yield path.parent


def write_synced(path: Path, text: str) -> None:
    """Write a file as a whole: synced under another name, then renamed."""
    unfinished_path = path.with_name(f".{path.name}.unfinished")
    with unfinished_path.open("w", encoding="utf-8") as file:
        file.write(text)
        _sync(file)
    unfinished_path.replace(path)
    _sync_path(path.parent)


def _sync(file: IO[str]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
