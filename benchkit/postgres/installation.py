"""What lies on disk in a PostgreSQL installation: programs, configuration, files, libraries."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchkit.errors import BuildError
from benchkit.postgres import account
from benchkit.postgres.versions import Version, has, parse_version

# What a copy needs: a server is made, run and measured with these.
_COPIED = ("postgres", "initdb", "pg_ctl", "pg_config", "pgbench", "psql", "postmaster")


def bin_dir_of(path: Path) -> Path:
    """Find the bin directory: given itself, its prefix, or a program in it.

    Raises
    ------
    BuildError
        There is no server program.
    """
    candidates = [path, path / "bin"] if path.is_dir() else [path.parent] if path.exists() else []
    for candidate in candidates:
        if (candidate / "postgres").exists():
            return candidate
    searched = ", ".join(str(item / "postgres") for item in candidates)
    raise BuildError(
        f"no PostgreSQL server in {path}",
        evidence=f"searched: {searched}" if searched else "there is no such file or directory",
        advice="give the directory that holds postgres and initdb",
    )


def ask(command: Sequence[str | Path]) -> str:
    """Run a program that only says something about itself, as the caller.

    That is allowed to root, and root may read what the unprivileged account may not.

    Raises
    ------
    BuildError
        It cannot be executed, failed, or did not answer within 30 s.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            env=account.clean_environment(),
            timeout=30,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{words[0]} does not answer", evidence=str(error)) from error
    if done.returncode != 0:
        raise BuildError(f"{words[0]} failed", evidence=done.stderr)
    return done.stdout


def program_version(program: Path) -> Version:
    """Ask a program for its version.

    Raises
    ------
    BuildError, FormatError
        It does not answer, or not with a version.
    """
    return parse_version(ask([program, "--version"]))


def pgbench_version(bin_dir: Path, server: Version) -> Version | None:
    """Ask pgbench for its version; None where there is no pgbench.

    Up to 8.4 it has no option ``--version``: it is taken to be of the server's version.

    Raises
    ------
    BuildError, FormatError
        It does not answer, or not with a version.
    """
    program = bin_dir / "pgbench"
    if not program.exists():
        return None
    return program_version(program) if has(server, "pgbench --version") else server


def debug_assertions(bin_dir: Path, version: Version) -> bool | None:
    """Ask the server program whether it was compiled with assertions; None before 9.2.

    The configure flags do not tell: a build made with Meson does not show its options there.
    """
    if not has(version, "postgres -C"):
        return None
    # No data directory is needed to be asked: any directory will do, without a settings file.
    words = ["-C", "debug_assertions", "-D", "/", "-c", "config_file=/dev/null"]
    try:
        answer = ask([bin_dir / "postgres", *words])
    except BuildError:
        return None
    return answer.strip() == "on"


def configuration(bin_dir: Path) -> dict[str, str]:
    """Read what ``pg_config`` says, by name; nothing where there is none that works."""
    if not (bin_dir / "pg_config").exists():
        return {}
    try:
        lines = ask([bin_dir / "pg_config"]).splitlines()
    except BuildError:
        return {}
    parts = (line.partition(" = ") for line in lines)
    return {name.strip(): value for name, _, value in parts}


def private_libraries(bin_dir: Path) -> list[Path]:
    """List the shared libraries of the programs that lie outside the system's directories."""
    if not shutil.which("ldd"):
        return []
    paths = set()
    for name in ("postgres", "pgbench", "initdb"):
        # ldd fails at a static program, which needs no library.
        with contextlib.suppress(BuildError):
            for line in ask(["ldd", bin_dir / name]).splitlines():
                path = line.partition(" => ")[2].rpartition(" (0x")[0]
                if path.startswith("/"):
                    paths.add(Path(path))
    system = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
    return sorted(path for path in paths if not any(path.is_relative_to(place) for place in system))


def _file_roots(bin_dir: Path) -> list[Path]:
    config = configuration(bin_dir)
    given = [Path(config[name]) for name in ("SHAREDIR", "PKGLIBDIR") if name in config]
    prefix = bin_dir.parent
    return [path for path in given or [prefix / "share", prefix / "lib"] if path.is_dir()]


def place_in_copy(bin_dir: Path, copy: Path) -> Path:
    """Tell where a copy made by :func:`copy_installation` has its bin directory."""
    return copy / bin_dir.relative_to(_common_root(bin_dir))


def _common_root(bin_dir: Path) -> Path:
    return Path(os.path.commonpath([bin_dir, *_file_roots(bin_dir)]))


def copy_installation(bin_dir: Path, target: Path) -> None:
    """Copy programs, shared files and own libraries, readable by every account.

    PostgreSQL finds its files relative to its programs; the libraries go to ``libraries``.
    """
    root = _common_root(bin_dir)
    for source in _file_roots(bin_dir):
        place = target / source.relative_to(root)
        shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
    programs = place_in_copy(bin_dir, target)
    programs.mkdir(parents=True, exist_ok=True)
    for name in _COPIED:
        if (bin_dir / name).exists():
            shutil.copy2(bin_dir / name, programs / name)
    (target / "libraries").mkdir()
    for library in private_libraries(bin_dir):
        shutil.copy2(library, target / "libraries" / library.name)
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    # The unprivileged account runs these programs; it need not be able to change them.
    os.chown(target, os.geteuid(), os.getegid())
