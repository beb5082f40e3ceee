"""Data directories: made by initdb, loaded once, kept as templates, cloned for each trial."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchkit.errors import ServerError
from benchkit.postgres import account, workplace
from benchkit.postgres.builds import Build, reachable
from benchkit.postgres.versions import has

# The format of template.json; a template with another number is not used.
TEMPLATE_VERSION = 1
SUPERUSER = "postgres"


def initdb_options(build: Build, *, checksums: bool) -> list[str]:
    """Give initdb's options: the same encoding, locale and checksums for every version.

    Without ``-E UTF8`` the C locale gives SQL_ASCII; 18 turned data checksums on by default.

    Raises
    ------
    ServerError
        Checksums are asked of a version before 9.3, which has none.
    """
    options = ["-A", "trust", "-U", SUPERUSER, "-E", "UTF8", "--locale=C"]
    for spelling in ("initdb --no-sync", "initdb --nosync"):
        if has(build.version, spelling):
            options.append(spelling.split()[1])
    if checksums and not has(build.version, "initdb --data-checksums"):
        raise ServerError(f"PostgreSQL {build.version} has no data checksums (9.3 brought them)")
    if checksums:
        options.append("--data-checksums")
    elif has(build.version, "initdb --no-data-checksums"):
        options.append("--no-data-checksums")
    return options


def initdb(build: Build, data_dir: Path, *, checksums: bool = False) -> None:
    """Make an empty cluster whose settings file includes ``benchkit.conf``.

    Parameters
    ----------
    data_dir
        An empty directory of mode 0700, owned by the account that runs the servers.

    Raises
    ------
    ServerError
        initdb failed, or its probing of the machine ended at the smallest settings.
    """
    options = initdb_options(build, checksums=checksums)
    done = reachable(build).run("initdb", *options, "-D", data_dir, directory=data_dir.parent)
    if done.exit_code != 0:
        advice = (
            "turn huge pages off or raise the container's limit"
            if done.exit_code in (-7, 135)
            else ""
        )
        raise ServerError("initdb failed", evidence=done.evidence, advice=advice)
    # When its test servers do not start, initdb goes down to the least and finishes all the same.
    if "shared_buffers ... 400kB" in done.stdout:
        raise ServerError(
            "initdb could not start a server with more than 400kB of shared_buffers",
            evidence=done.stdout,
            advice="look at the limits on shared memory and huge pages",
        )
    with (data_dir / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write("\ninclude 'benchkit.conf'\n")
    write_settings(data_dir, "")


def write_settings(data_dir: Path, text: str) -> None:
    """Write the included settings file."""
    path = data_dir / "benchkit.conf"
    path.write_text(text, encoding="utf-8")
    account.account().own(path)


def _template_key(
    build: Build, contents: Mapping[str, Any], *, checksums: bool
) -> tuple[Path, dict[str, Any]]:
    """Give the place of a template, and what it is described by."""
    description = {
        "template_version": TEMPLATE_VERSION,
        "build": build.fingerprint,
        "version": build.version.text,
        "machine": platform.machine(),
        "initdb": initdb_options(build, checksums=checksums),
        "contents": dict(contents),
    }
    text = json.dumps(description, sort_keys=True)
    place = workplace.home() / "templates" / hashlib.sha256(text.encode()).hexdigest()[:20]
    return place, description


def template_place(build: Build, contents: Mapping[str, Any], *, checksums: bool = False) -> Path:
    """Give where a loaded cluster is kept, if it is there; parameters as in :func:`template`."""
    return _template_key(build, contents, checksums=checksums)[0]


def template(
    build: Build,
    *,
    contents: Mapping[str, Any],
    load: Callable[[Path], Mapping[str, Any]],
    checksums: bool = False,
    base: Path | None = None,
) -> tuple[Path, dict[str, Any]]:
    """Give a loaded cluster from the cache; load it first if it is not there.

    Parameters
    ----------
    contents
        What is loaded, as plain data; with the build and initdb's options it makes the key.
    load
        Called with a fresh data directory; starts, loads and stops a server there. What it returns
        is kept in the template's description.
    base
        Another template to begin with, instead of an empty cluster.

    Returns
    -------
    tuple
        The template's data directory (stopped cleanly, never to be started), and its description.
    """
    place, description = _template_key(build, contents, checksums=checksums)
    if not (place / "template.json").exists():
        with workplace.under_construction(place) as unfinished:
            data_dir = unfinished / "data"
            if base is None:
                data_dir.mkdir(mode=0o700)
                account.account().own(data_dir)
                initdb(build, data_dir, checksums=checksums)
            else:
                clone(base, data_dir)
            loaded = description | {"loaded": dict(load(data_dir))}
            if (data_dir / "postmaster.pid").exists():
                raise ServerError("the server was not stopped after loading")
            (unfinished / "template.json").write_text(json.dumps(loaded, indent=1), "utf-8")
    try:
        return place / "data", json.loads((place / "template.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ServerError(
            f"the template {place} is damaged", evidence=str(error), advice="remove it"
        ) from error


def check_source(data_dir: Path, build: Build) -> None:
    """Check that a cluster can be cloned for a build.

    Raises
    ------
    ServerError
        It is of another major version (the server would refuse it too, but often because of a
        setting in its file that only the other version knows), is no cluster at all, or has
        files elsewhere, which a clone would share with it and change.
    """
    try:
        major = (data_dir / "PG_VERSION").read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise ServerError(f"{data_dir} is no cluster", evidence=str(error)) from error
    if major != build.version.major:
        raise ServerError(
            f"{data_dir} is a cluster of PostgreSQL {major}, not of {build.version}",
            advice="use a build of that version",
        )
    places = [data_dir / "pg_wal", data_dir / "pg_xlog", *data_dir.glob("pg_tblspc/*")]
    if links := [f"{path} -> {path.readlink()}" for path in places if path.is_symlink()]:
        raise ServerError(
            f"{data_dir} has files elsewhere, which its clones would change",
            evidence="\n".join(links),
            advice="a cluster without tablespaces and with its WAL inside",
        )


def clone(source: Path, target: Path) -> None:
    """Copy a stopped cluster, sharing blocks where the file system can, and sync it to disk.

    The sync keeps the write-back of the copy out of the measured run.

    A lock file that a killed server left in `source` is not cloned: the process id in it may be
    another's by now, and then the clone would not start.

    Raises
    ------
    ServerError
        The copy failed (most often the disk is full), or a server runs in `source`.
    """
    share = ["-c"] if platform.system() == "Darwin" else ["--reflink=auto"]
    done = account.run(
        ["cp", "-a" if share != ["-c"] else "-pR", *share, source, target], directory=target.parent
    )
    if done.exit_code != 0:
        free = shutil.disk_usage(target.parent).free
        raise ServerError(
            "the loaded cluster could not be cloned",
            evidence=f"{done.evidence}\n{free:,} bytes are free",
        )
    if (target / "postmaster.pid").exists():
        if running := workplace.processes_inside(source):
            raise ServerError(
                f"a server runs in {source}, so what was copied is not whole",
                evidence=f"process {min(running)}",
                advice="stop it first",
            )
        (target / "postmaster.pid").unlink()
    os.sync()
