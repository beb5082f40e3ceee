"""The flags that a build was compiled with, as far as they change the code that runs."""

from __future__ import annotations

from collections.abc import Sequence

# Where things lie, and the tools that built them:
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


def code_options(configure: Sequence[str] | None) -> list[str] | None:
    """Give the configure flags that change the code; None where they are unknown.

    Parameters
    ----------
    configure
        As ``pg_config --configure`` has them, a word each.
    """
    if configure is None:
        return None
    joined: list[str] = []
    for word in configure:
        # An option may have its value in the next word: --prefix /opt/postgresql.
        if joined and joined[-1].startswith("-") and not word.startswith("-") and "=" not in word:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return [option for option in joined if not _is_ignored(option.partition("=")[0])]


def _is_ignored(name: str) -> bool:
    return name in _IGNORED or (name.startswith("--") and name.endswith("dir"))


def code_flags(cflags: str | None) -> list[str] | None:
    """Give the compiler's flags that change the code; None where they are unknown.

    Without warnings and without flags that name a place, and of several -O the last, which counts.
    """
    if cflags is None:
        return None
    words = [word for word in cflags.split() if "/" not in word]
    levels = [word for word in words if word.startswith("-O")]
    kept = [
        word
        for word in words
        if word not in levels
        and (not word.startswith("-W") or word.startswith(("-Wl,", "-Wa,", "-Wp,")))
    ]
    return kept + levels[-1:]
