"""Whether builds were compiled alike: else a comparison is one of compilations, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchkit.measure.finding import Finding
from benchkit.postgres.builds import Build

# What changes no code that runs. Where things lie, and the tools that built them:
_DIRECTORIES = (
    *("--prefix", "--exec-prefix", "--with-includes", "--with-libraries", "--with-libs"),
    *("--with-system-tzdata", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"),
)
_TOOLS = ("AWK", "BISON", "FLEX", "MKDIR_P", "PERL", "PROVE", "PYTHON", "TAR", "XSLTPROC")
# A vendor's text, names of the machine, what only tells configure how to behave, tests.
_NAMES = ("--with-extra-version", "--with-pgport", "--build", "build_alias", "--enable-tap-tests")
_CONFIGURE = (
    *("--disable-option-checking", "--enable-option-checking", "--disable-silent-rules"),
    *("--disable-maintainer-mode", "--disable-dependency-tracking"),
)
# pg_config says these by themselves, in full.
_SAID_ELSEWHERE = ("CC", "CFLAGS")
_IGNORED = frozenset((*_DIRECTORIES, *_TOOLS, *_NAMES, *_CONFIGURE, *_SAID_ELSEWHERE))


def differences_of_builds(builds: Iterable[Build]) -> list[Finding]:
    """Find the builds that were not compiled as the first one was.

    Compared are the configure flags, the compiler and CFLAGS, as far as they change the code:
    directories, names and warnings do not. The same program found twice is one build.

    Parameters
    ----------
    builds
        As many as are compared, in any order.

    Returns
    -------
    list of Finding
        One for each build that differs from the first, or of which it is unknown.
    """
    distinct = list({build.fingerprint: build for build in builds}.values())
    findings = []
    for other in distinct[1:]:
        differing = _differences(distinct[0], other)
        if differing:
            findings.append(
                Finding(
                    severity="warning",
                    name="builds compiled differently",
                    evidence=f"{_names(distinct[0], other)}: {'; '.join(differing)}",
                    fix="compare two builds by one builder with the same flags (one package "
                    "source, or compiled alike by yourself); else the difference may be theirs",
                )
            )
    return findings


def _names(one: Build, other: Build) -> str:
    names = [f"PostgreSQL {build.version} ({build.origin})" for build in (one, other)]
    if names[0] == names[1]:
        names = [f"PostgreSQL {build.version} in {build.bin_dir}" for build in (one, other)]
    return " and ".join(names)


def _differences(one: Build, other: Build) -> list[str]:
    texts = _only_in("configure flags", _options(one), _options(other))
    if one.compiler != other.compiler:
        texts.append(f"compiler {one.compiler or 'unknown'} against {other.compiler or 'unknown'}")
    return texts + _only_in("CFLAGS", _code_flags(one), _code_flags(other))


def _only_in(what: str, one: Sequence[str] | None, other: Sequence[str] | None) -> list[str]:
    if one is None or other is None:
        unknown = [name for name, flags in (("first", one), ("second", other)) if flags is None]
        return [f"{what} of the {' and the '.join(unknown)} are unknown"]
    sides = (("first", one, other), ("second", other, one))
    return [
        f"{what} only in the {name}: {' '.join(only)}"
        for name, these, those in sides
        if (only := [flag for flag in dict.fromkeys(these) if flag not in those])
    ]


def _options(build: Build) -> list[str] | None:
    """Give the configure flags that change the code; None where they are unknown."""
    if build.configure is None:
        return None
    joined: list[str] = []
    for word in build.configure:
        # An option may have its value in the next word: --prefix /opt/postgresql.
        if joined and joined[-1].startswith("-") and not word.startswith("-") and "=" not in word:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return [option for option in joined if not _is_ignored(option.partition("=")[0])]


def _is_ignored(name: str) -> bool:
    return name in _IGNORED or (name.startswith("--") and name.endswith("dir"))


def _code_flags(build: Build) -> list[str] | None:
    """Give CFLAGS without warnings, which change no code, and the last -O only, which counts."""
    if build.cflags is None:
        return None
    words = build.cflags.split()
    levels = [word for word in words if word.startswith("-O")]
    kept = [
        word
        for word in words
        if word not in levels
        and (not word.startswith("-W") or word.startswith(("-Wl,", "-Wa,", "-Wp,")))
    ]
    return kept + levels[-1:]
