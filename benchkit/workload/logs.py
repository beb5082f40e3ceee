"""The files that pgbench writes with ``--log``: a line per transaction, or per interval.

Every thread writes a file of its own (9.0+), so both readers take all files of a run. The layouts
depend on the client's version and options; they are those of function ``doLog`` in ``pgbench.c``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchkit.errors import FormatError
from benchkit.postgres.versions import has

if TYPE_CHECKING:
    import pandas as pd

STATUSES = ("ok", "skipped", "failed", "serialization", "deadlock")

_TRANSACTION = ("client", "transaction", "latency_us", "script", "epoch", "epoch_us")
_INTERVAL = ("start_epoch_s", "transactions", "sum_us", "sum2_us2", "min_us", "max_us")
_LAG = ("lag_sum_us", "lag_sum2_us2", "lag_min_us", "lag_max_us")
_REALS = ("sum_us", "sum2_us2", "min_us", "max_us")
_COUNTS = ("retried", "retries", "serialization_failures", "deadlock_failures")


def read_transaction_log(
    paths: Iterable[Path], *, rate: bool = False, retries: bool = False
) -> pd.DataFrame:
    """Read the transaction logs of one run, a row per transaction, in the order of their ends.

    Parameters
    ----------
    paths
        The files of all threads.
    rate
        The run had ``-R``: there is a column for the lag (9.4+).
    retries
        The run had ``--max-tries`` other than 1: there is a column for the retries (15+).

    Returns
    -------
    pandas.DataFrame
        ``client``, ``transaction`` (number within the client, from 0 or 1), ``latency_us`` (null
        unless ok), ``status`` (of :data:`STATUSES`), ``script`` (number from 0), ``epoch_s`` (Unix
        time of the end), ``lag_us``, ``retries`` (null where not logged). 8.2 logs neither script
        nor time: null, and the order is that of the file.

    Raises
    ------
    FormatError
        No file, an unreadable one, or a line that does not fit; names file and line.

    Notes
    -----
    A last line without a line end is dropped: pgbench was killed while it wrote. A log made with
    ``--sampling-rate`` serves for percentiles; counting its rows gives no throughput.
    """
    import pandas as pd

    optional = [name for name, there in (("lag_us", rate), ("retries", retries)) if there]
    frames = [_transactions(path, optional) for path in _listed(paths)]
    table = pd.concat(frames, ignore_index=True)
    if table["epoch_s"].notna().all():
        table = table.sort_values("epoch_s", kind="stable", ignore_index=True)
    return table


def read_aggregate_log(
    paths: Iterable[Path], client_version_num: int, *, rate: bool, latency_limit: bool
) -> pd.DataFrame:
    """Read the logs of one run with ``--aggregate-interval``, a row per interval over all threads.

    Parameters
    ----------
    paths
        The files of all threads.
    client_version_num
        Version of pgbench, as in 90423 or 150018: 9.3 has 6 columns, 9.4 to 14 have up to 11 by
        option, 15+ always 15.
    rate, latency_limit
        The run had ``-R``, ``-L``.

    Returns
    -------
    pandas.DataFrame
        ``start_epoch_s``; ``transactions`` (that succeeded, in every version); latency
        ``latency_average_ms``, ``latency_stddev_ms``, ``latency_min_ms``, ``latency_max_ms``; the
        same of the lag, ``lag_average_ms`` and so on; ``skipped``, ``retried``, ``retries``,
        ``serialization_failures``, ``deadlock_failures``. Null where not logged, and for the
        latency and lag of an interval without a transaction.

    Raises
    ------
    FormatError
        No file, an unreadable one, a version without this log, or a line that does not fit; names
        file and line.

    Notes
    -----
    9.5 to 14 count skipped transactions among all, though they have no latency; they are taken off.
    The first and the last interval are not whole ones: leave them out of a rate over time. Threads
    whose intervals start at different seconds give separate rows.
    """
    import pandas as pd

    names = _interval_columns(client_version_num, rate=rate, latency_limit=latency_limit)
    frames = [_columns(path, _whole_lines(path), names) for path in _listed(paths)]
    table = pd.concat(frames, ignore_index=True)
    whole = has(client_version_num, "pgbench log of intervals with all columns")
    if not whole and "skipped" in names:
        table["transactions"] -= table["skipped"]
    unused = [*(() if rate else _LAG), *(() if rate and latency_limit else ["skipped"])]
    return _per_interval(table.drop(columns=unused, errors="ignore"))


def _interval_columns(
    client_version_num: int, *, rate: bool, latency_limit: bool
) -> tuple[str, ...]:
    if not has(client_version_num, "pgbench --aggregate-interval"):
        raise FormatError(
            f"pgbench {client_version_num} writes no log of intervals",
            advice="--aggregate-interval exists from 9.3 on; use --log without it",
        )
    if has(client_version_num, "pgbench log of intervals with all columns"):
        return (*_INTERVAL, *_LAG, "skipped", *_COUNTS)
    lagging = rate and has(client_version_num, "pgbench lag in the log of intervals")
    skipping = latency_limit and has(client_version_num, "pgbench skipped in the log of intervals")
    lag = _LAG if lagging else ()
    skipped = ("skipped",) if lagging and skipping else ()
    return (*_INTERVAL, *lag, *skipped)


def _per_interval(table: pd.DataFrame) -> pd.DataFrame:
    """Add up the threads' rows of an interval, and make means of sums."""
    import pandas as pd

    names = [str(name) for name in table.columns if name != "start_epoch_s"]
    bounds = {name: name[-6:-3] for name in names if name.endswith(("min_us", "max_us"))}
    for name in bounds:
        table[name] = table[name].where(table["transactions"] > 0)
    how = dict.fromkeys(names, "sum") | bounds
    totals = table.groupby("start_epoch_s", as_index=False).agg(how)
    columns = {name: totals[name] for name in ("start_epoch_s", "transactions")}
    columns |= _moments(totals, "latency", "") | _moments(totals, "lag", "lag_")
    for name in ("skipped", *_COUNTS):
        counts = totals[name] if name in totals else pd.Series(pd.NA, index=totals.index)
        columns[name] = counts.astype("Int64")
    return pd.DataFrame(columns)


def _moments(totals: pd.DataFrame, name: str, prefix: str) -> dict[str, pd.Series[float]]:
    # Times in the log are microseconds; the report has milliseconds.
    total, squares, least, most = (
        totals.get(prefix + column, totals["transactions"] * float("nan")) for column in _REALS
    )
    count = totals["transactions"].where(totals["transactions"] > 0)
    average = total / count
    deviation = (squares / count - average**2).clip(lower=0) ** 0.5
    return {
        f"{name}_average_ms": average / 1000,
        f"{name}_stddev_ms": deviation / 1000,
        f"{name}_min_ms": least / 1000,
        f"{name}_max_ms": most / 1000,
    }


def _transactions(path: Path, optional: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    lines = _whole_lines(path)
    oldest = len(lines.partition(b"\n")[0].split()) == 3  # 8.2
    names = _TRANSACTION[:3] if oldest else (*_TRANSACTION, *optional)
    # Words instead of latencies are rare, and reading text is slow: look before.
    wordy = bool(lines.translate(None, b"0123456789 -\n"))
    table = _columns(path, lines, names, text="latency_us" if wordy else "")
    latency, status = table["latency_us"], pd.Series("ok", index=table.index)
    if wordy:
        words = latency.isin(STATUSES[1:])
        if not (words | latency.str.fullmatch("-?[0-9]{1,18}")).all():
            raise _misfit(path, lines, names)
        status = latency.where(words, "ok")
        latency = latency.mask(words, "0").astype("int64").astype("Int64").mask(words)
    nothing = pd.Series(pd.NA, index=table.index)
    columns = {
        "client": table["client"],
        "transaction": table["transaction"],
        "latency_us": latency.astype("Int64"),
        "status": status.astype(pd.CategoricalDtype(list(STATUSES))),
        "script": table.get("script", nothing).astype("Int64"),
        "epoch_s": table.get("epoch", float("nan")) + table.get("epoch_us", 0) / 1e6,
        "lag_us": table.get("lag_us", nothing).astype("Int64"),
        "retries": table.get("retries", nothing).astype("Int64"),
    }
    return pd.DataFrame(columns, index=table.index)


def _listed(paths: Iterable[Path]) -> list[Path]:
    listed = [Path(path) for path in paths]
    if not listed:
        raise FormatError(
            "pgbench left no log file",
            advice="it writes them where it was started, and only with --log",
        )
    return listed


def _whole_lines(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FormatError(f"the log {path} cannot be read", evidence=str(error)) from error
    whole = content[: content.rfind(b"\n") + 1]
    return whole.replace(b"\r\n", b"\n") if b"\r" in whole else whole


def _columns(path: Path, lines: bytes, names: Sequence[str], *, text: str = "") -> pd.DataFrame:
    """Read numbers separated by single blanks; exactly as many in a line as there are names."""
    import pandas as pd

    # Sums of squares outgrow 64-bit integers; the log of intervals has them as rounded reals.
    kinds = {name: "float64" if name.endswith(_REALS) else "int64" for name in names}
    try:
        if lines and len(lines.partition(b"\n")[0].split(b" ")) != len(names):
            raise ValueError("the first line has another number of columns")
        return pd.read_csv(
            io.BytesIO(lines),
            sep=" ",
            header=None,
            names=list(names),
            index_col=False,
            dtype=kinds | ({text: "str"} if text else {}),
            encoding="latin-1",
            lineterminator="\n",
            na_filter=False,
            quoting=csv.QUOTE_NONE,
            skip_blank_lines=False,
        )
    except (ValueError, OverflowError) as error:
        raise _misfit(path, lines, names) from error


def _misfit(path: Path, lines: bytes, names: Sequence[str]) -> FormatError:
    """Say which line of a log does not fit, and how."""
    for number, line in enumerate(lines.decode("latin-1").split("\n"), start=1):
        fields = line.split(" ")
        wrong = [
            field for name, field in zip(names, fields, strict=False) if not _fits(name, field)
        ]
        if len(fields) != len(names) or wrong:
            problem = f"{len(fields)} columns instead of {len(names)}"
            if len(fields) == len(names):
                problem = f"{wrong[0]!r} does not fit"
            return FormatError(
                f"{path}, line {number}: {problem} ({', '.join(names)})",
                evidence=line[:200],
                advice="name the client's version and options as the run had them",
            )
    return FormatError(f"{path}: this is not a log of pgbench with {', '.join(names)}")


def _fits(name: str, field: str) -> bool:
    digits = field.removeprefix("-")
    number = digits.isascii() and digits.isdigit() and (len(digits) < 19 or name.endswith(_REALS))
    return number or (name == "latency_us" and field in STATUSES[1:])
