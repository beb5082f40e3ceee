"""Write docs/versions.md: what benchkit can do with each version of PostgreSQL.

``python docs/make_versions.py``; a test holds the file to what this gives.
"""

from __future__ import annotations

from pathlib import Path

from benchkit.measure.views import FIGURES
from benchkit.postgres.versions import FACTS, has

NO = "\N{EN DASH}"
MAJORS = (
    *("8.2", "8.3", "8.4", "9.0", "9.1", "9.2", "9.3", "9.4", "9.5", "9.6"),
    *("10", "11", "12", "13", "14", "15", "16", "17", "18"),
)
# Servers that gave whole trials, driven by pgbench 18.
TRIED = {
    "8.2": "8.2.0", "8.3": "8.3.0", "9.4": "9.4beta1", "9.6": "9.6.4", "10": "10.23", "12": "12.22",
    "14": "14.23", "15": "15.20", "16": "16.14", "17": "17.10", "18": "18.4, 18.6",
}  # fmt: skip
SERVER_FIGURES = {
    "HOT share": (("tables", "n_tup_hot_upd"), 80300),
    "WAL": (("wal", "bytes"), 0),
    "full-page images": (("wal", "full_page_images"), 0),
    "checkpoints": (("checkpoints", "timed"), 0),
    "evictions": (("buffers", "evicted"), 0),
}
SERVER_FACTS = {
    "values judged before the start": "postgres -C",
    "checksums": "initdb --data-checksums",
    "states of sessions": "pg_stat_activity.state",
    "wait events": "pg_stat_activity.wait_event",
    "prewarming by pg_prewarm": "pg_prewarm",
}
CLIENT_FACTS = {
    "duration (-T)": "pgbench -T",
    "protocol (-M)": "pgbench -M",
    "threads (-j)": "pgbench -j",
    "per statement (-r)": "pgbench -r",
    "second by second (-P)": "pgbench -P",
    "rate (-R)": "pgbench -R",
    "latency limit (-L)": "pgbench -L",
    "several scripts": "pgbench -b",
    "seed": "pgbench --random-seed",
}


PAGE = """\
# What benchkit can do with each version of PostgreSQL

Made by `docs/make_versions.py` from the registry in `benchkit/postgres/versions.py` and the tables
in `benchkit/measure/views.py`. Where a server does not count something, the figure is empty with
its reason, never 0.

## As a server

All are driven by one client, by default the newest pgbench found; pgbench 15 to 18 can drive
servers from 8.2 on. Settings of another era are translated (`checkpoint_segments` and
`max_wal_size`), values are written as the version accepts them (`1.5GB` as `1536MB`), and
`same_settings=True` sets alike what has different defaults. Each version gets the same preparation
after loading: vacuum, freeze, analyze, checkpoint.

{server}

Without pg_prewarm the tables are read as a whole instead. Before 8.3 tables have no HOT share,
since there was no HOT. 8.2 counts rows only with `stats_row_level` on. What `pgbench -i` of 8.2 and
8.3 calls `accounts` is found as well as `pgbench_accounts`.

## Its own pgbench as the client

`client="own"` drives each server with the pgbench of its build, where it has one; `client="16"` all
with one. What that pgbench cannot do is refused before anything starts.

{client}

The registry holds {facts} facts, each with its source.
"""


def number(major: str) -> int:
    """Give a major version as ``server_version_num`` has it."""
    first, _, second = major.partition(".")
    return int(first) * 10000 + int(second or 0) * 100


def table(title: str, columns: dict[str, list[str]]) -> list[str]:
    """Write one table: versions down."""
    names = [title, *columns]
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    for at, major in enumerate(MAJORS):
        cells = [major, *(column[at] for column in columns.values())]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def marks(fact: str) -> list[str]:
    """Tell for each version whether it has a fact."""
    return ["yes" if has(number(major), fact) else NO for major in MAJORS]


def since(path: tuple[str, ...], known: int) -> list[str]:
    """Tell for each version whether a figure is counted."""
    first = known or min(FIGURES[path])
    return ["yes" if number(major) >= first else NO for major in MAJORS]


def text() -> str:
    """Give the whole page."""
    server = {"tried on": [TRIED.get(major, NO) for major in MAJORS]}
    server |= {name: since(*where) for name, where in SERVER_FIGURES.items()}
    server |= {name: marks(fact) for name, fact in SERVER_FACTS.items()}
    client = {name: marks(fact) for name, fact in CLIENT_FACTS.items()}
    return PAGE.format(
        server="\n".join(table("server", server)),
        client="\n".join(table("pgbench", client)),
        facts=len(FACTS),
    )


if __name__ == "__main__":
    Path(__file__).with_name("versions.md").write_text(text(), encoding="utf-8")
