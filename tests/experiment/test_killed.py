"""A run that is killed again and again loses nothing, repeats nothing and leaves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from benchkit.experiment.ledger import read_record
from benchkit.postgres import workplace

pytestmark = [
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only /proc names a file"),
]

# Tells each moment on standard output, and stays at the one it was given until it is killed.
PROGRAM = """
import os, sys, time
from benchkit import Experiment, Workload

def here(moment):
    print(moment, flush=True)
    if moment == sys.argv[1]:
        time.sleep(300)

def fsync(descriptor, whole=os.fsync):
    here("sync " + os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
    whole(descriptor)

os.fsync = fsync
experiment = Experiment(
    "killed", factors={"clients": [1, 2]}, rounds=2,
    workload=Workload(scale=1, duration_s=1, script="simple-update"),
)
experiment.run(watch=lambda standing: here(f"{standing.event} {standing.step}".strip()))
"""

# When to kill: at a moment of the program's, or as soon as a file is there after it.
MOMENTS = [
    ("step template", "*/**/postmaster.pid"),
    ("step clone and start", "*/data/PG_VERSION"),
    ("step clone and start", "*/data/postmaster.pid"),
    ("step run", "*/run*/stdout.txt"),
    ("second run", ""),
    ("step counters after", ""),
    ("step stop", ""),
    ("sync .run.stdout.txt.unfinished", ""),
    ("sync trials.jsonl", ""),
    ("trial", ""),
]
# What runs then: checked, so that the test does not pass for want of anything to leave.
AT_WORK = {"step run": "pgbench", "second run": "postgres", "step stop": "postgres"}


class Killed:
    """The experiment's process, and what it leaves each time."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.home, self.sockets = place / "home", place / "t"
        for directory in (self.home, self.sockets):
            directory.mkdir()
        self.sockets.chmod(0o1777)
        self.environment = os.environ | {
            "BENCHKIT_HOME": str(self.home),
            "BENCHKIT_RUNS": str(place / "runs"),
            "TMPDIR": str(self.sockets),
        }
        self.recorded = 0

    def start(self, moment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, moment],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    def kill_at(self, moment: str, file: str) -> None:
        with self.start("" if file else moment) as process:
            try:
                self._wait_for(process, moment, file)
            finally:
                process.kill()
        assert process.returncode == -9

    def _wait_for(self, process: subprocess.Popen[str], moment: str, file: str) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.recorded += line == "trial\n"
            if line.strip() == moment:
                break
        else:
            pytest.fail(f"ended before {moment!r}")
        deadline = time.monotonic() + 60
        while file and not list((self.home / "instances").glob(file)):
            assert process.poll() is None
            assert time.monotonic() < deadline, f"no {file}"
            time.sleep(0.002)
        if moment in AT_WORK:
            time.sleep(0.2)
            pids = workplace.processes_inside(self.home)
            assert AT_WORK[moment] in {psutil.Process(pid).name() for pid in pids}

    @property
    def trials(self) -> Path:
        (run,) = (self.place / "runs" / "killed").iterdir()
        return run / "trials.jsonl"

    def whole_lines(self) -> bytes:
        content = self.trials.read_bytes() if self.trials.exists() else b""
        return content[: content.rfind(b"\n") + 1]


def test_killed_at_any_moment_nothing_is_lost_repeated_or_left(open_directory: Path) -> None:
    killed = Killed(open_directory)
    before = b""
    for moment, file in MOMENTS:
        killed.kill_at(moment, file)
        after = killed.whole_lines()
        assert after.startswith(before), f"what was recorded changed: killed at {moment}"
        assert after.count(b"\n") >= killed.recorded, f"a trial is lost: killed at {moment}"
        before = after
        if moment == "sync trials.jsonl":
            with killed.trials.open("ab") as torn:
                torn.write(b'{"key": "torn')
    last = killed.start("")
    output, _ = last.communicate(timeout=120)
    assert last.returncode == 0
    assert output.endswith("end\n")

    record = read_record(killed.trials.parent)
    assert killed.trials.read_bytes().startswith(before)
    assert record.notes == ()
    assert len({entry["key"] for entry in record.entries}) == len(record.entries) == 6
    assert [entry["status"] for entry in record.entries] == ["usable"] * 6
    measured = sorted((entry["round"], entry["position"]) for entry in record.entries)
    assert measured == [(number, position) for number in (1, 2) for position in (1, 2, 3)]
    for entry in record.entries:
        assert (killed.trials.parent / "logs" / entry["key"] / "server.log").exists()
        assert record.series(entry["key"]) is not None

    assert workplace.processes_inside(killed.home) == []
    assert list((killed.home / "instances").iterdir()) == []
    assert list(killed.sockets.iterdir()) == []
    assert not (killed.trials.parent / ".lock").exists()
    (template,) = (killed.home / "templates").iterdir()
    assert json.loads((template / "template.json").read_text())["contents"]["scale"] == 1
