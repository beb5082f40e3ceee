"""The cause of a failure, cut out of a server log."""

from __future__ import annotations

import pytest

from benchkit.postgres.log import Checkpoint, checkpoints, last_fatal, log_errors

STAMP = "2026-11-30 19:27:57.957 UTC [31186] "


def log(*lines: str) -> str:
    return "".join(line if line[0] == "\t" else STAMP + line for line in lines if line)


def test_the_last_fatal_comes_with_detail_and_hint() -> None:
    text = log(
        "FATAL:  an older one\n",
        "DETAIL:  of the older one\n",
        "LOG:  starting PostgreSQL\n",
        'FATAL:  data directory "/x" has invalid permissions\n',
        "DETAIL:  Permissions should be u=rwx (0700).\n",
        "HINT:  Change them.\n",
        "LOG:  database system is shut down\n",
    )
    assert last_fatal(text) == log(
        'FATAL:  data directory "/x" has invalid permissions\n',
        "DETAIL:  Permissions should be u=rwx (0700).\n",
        "HINT:  Change them.",
    )


def test_lines_that_go_on_are_kept() -> None:
    text = log("PANIC:  could not locate a valid checkpoint record\n", "\tnor another\n")
    assert last_fatal(text) == text.rstrip()


def test_a_summary_comes_with_what_it_sums_up() -> None:
    text = log(
        "ERROR:  something else\n",
        'LOG:  unrecognized configuration parameter "nosuch" in file "c" line 1\n',
        'FATAL:  configuration file "c" contains errors\n',
    )
    assert last_fatal(text).splitlines() == text.splitlines()[1:]


def test_a_taken_socket_comes_with_its_cause() -> None:
    text = log(
        'LOG:  could not bind Unix address "/s": Address already in use\n',
        "HINT:  Is another postmaster already running on port 5432?\n",
        'WARNING:  could not create Unix-domain socket in directory "/s"\n',
        "FATAL:  could not create any Unix-domain sockets\n",
    )
    assert last_fatal(text) == text.rstrip()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "(the server wrote nothing)"),
        ("a\nb\n", "a\nb"),
        ("\n".join("abcdefghijkl"), "\n".join("efghijkl")),
        ("the word FATAL: alone\n", "the word FATAL: alone"),
    ],
)
def test_without_a_fatal_the_last_lines_are_given(text: str, shown: str) -> None:
    assert last_fatal(text) == shown


def test_errors_are_listed_by_severity_only() -> None:
    text = log(
        "LOG:  checkpoint starting\n",
        "ERROR:  division by zero\n",
        "STATEMENT:  select 1/0\n",
        "WARNING:  an ERROR: in a text\n",
        "FATAL:  terminating connection\n",
        "PANIC:  no space\n",
    )
    assert [line.split("] ")[1] for line in log_errors(text)] == [
        "ERROR:  division by zero",
        "FATAL:  terminating connection",
        "PANIC:  no space",
    ]


def test_what_a_modern_client_asks_an_old_server_in_vain_is_no_error() -> None:
    text = log(
        'FATAL:  unrecognized configuration parameter "application_name"\n',
        'ERROR:  relation "pg_catalog.pg_partitioned_table" does not exist at character 265\n',
        'ERROR:  syntax error at or near "select" at character 168\n',
        "STATEMENT:  select o.n, p.partstrat\n\tfrom pg_catalog.pg_partitioned_table\n",
        'ERROR:  relation "pgbench_accounts" does not exist at character 15\n',
    )
    assert [line.split("] ")[1] for line in log_errors(text)] == [
        'ERROR:  relation "pgbench_accounts" does not exist at character 15'
    ]


def test_checkpoints_are_read_with_their_times_and_causes() -> None:
    text = (
        "2026-11-30 19:00:00.500 UTC [7] LOG:  checkpoint complete: wrote 3 buffers (0.1%); 0 WAL\n"
        "2026-11-30 19:00:10.000 UTC [7] LOG:  checkpoint starting: immediate force wait\n"
        "2026-11-30 19:00:11.250 UTC [7] LOG:  checkpoint complete: wrote 3 buffers (0.1%)\n"
        "2026-11-30 19:00:20.000 UTC [9] ERROR:  something else\n"
        "2026-11-30 19:00:30.000 UTC [7] LOG:  checkpoint starting: xlog\n"
        "LOG:  checkpoint starting: without a time\n"
    )
    first, second, third = checkpoints(text)
    begin = 1796065200.0  # 19:00:00 UTC of that day
    assert first == Checkpoint(began_at=None, ended_at=begin + 0.5, cause="")
    assert second.began_at == begin + 10
    assert (second.ended_at, second.cause) == (begin + 11.25, "immediate force wait")
    assert third == Checkpoint(began_at=begin + 30, ended_at=None, cause="xlog")
    assert checkpoints("") == []
