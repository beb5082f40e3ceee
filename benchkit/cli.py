"""The command ``benchkit``: a thin layer over the package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import click

from benchkit import __version__
from benchkit.errors import BenchkitError, BuildError, Fault, InputError, NotebookError

_Command = TypeVar("_Command", bound=Callable[..., None])


class _Group(click.Group):
    """Turns benchkit's errors into one message and an exit code."""

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except BenchkitError as error:
            click.echo(f"benchkit: {error}", err=True)
            code = error.exit_code if isinstance(error, NotebookError) else 1
            sys.exit(2 if isinstance(error, InputError | BuildError) else code)


@click.group(cls=_Group)
@click.version_option(__version__)
def main() -> None:
    """Reproducible PostgreSQL performance experiments as notebooks.

    Exit codes: 2 bad input (nothing was started), 3 a cell of the notebook failed, 4 its kernel
    died, 5 its time ran out, 1 anything else.
    """


@main.command()
def builds() -> None:
    """List the PostgreSQL installations found on this machine."""
    from benchkit.postgres.builds import discover, places

    found = discover()
    for build in found:
        marks = [f"pgbench {build.pgbench}" if build.pgbench else "no pgbench"]
        marks += ["ASSERTIONS"] if build.assertions else []
        click.echo(
            f"{build.version.text:<10} {build.origin:<28} {', '.join(marks):<18} {build.bin_dir}"
        )
    if not found:
        searched = "\n".join(f"  {path}  ({origin})" for path, origin in places())
        click.echo(f"none found; searched:\n{searched}")


@main.command("list")
def list_() -> None:
    """List the experiments."""
    from benchkit.present.notebooks import list_notebooks

    for notebook in list_notebooks():
        click.echo(f"{notebook.name:<28} {notebook.title}")


@main.command()
@click.argument("name")
def params(name: str) -> None:
    """Show the parameters of an experiment, with defaults and meanings."""
    from benchkit.present.notebooks import find_notebook, read_parameters

    for parameter in read_parameters(find_notebook(name)).values():
        unit = f" [{parameter.unit}]" if parameter.unit else ""
        click.echo(f"{parameter.name}: {parameter.type} = {parameter.default!r}")
        click.echo(f"    {parameter.meaning}{unit}")


def _chosen(function: _Command) -> _Command:
    """Add the options that choose parameters."""
    for option in (
        click.option("--profile", help="smoke, quick or paper; short for -p profile=..."),
        click.option("-p", "assignments", multiple=True, metavar="NAME=VALUE", help="A parameter."),
    ):
        function = option(function)
    return function


def _values(path: Path, assignments: tuple[str, ...], profile: str | None) -> dict[str, object]:
    from benchkit.present.notebooks import parse_assignments, read_parameters

    chosen = [*assignments, *([f"profile={profile}"] if profile else [])]
    return parse_assignments(chosen, read_parameters(path))


@main.command()
@click.argument("name")
@_chosen
def check(name: str, assignments: tuple[str, ...], profile: str | None) -> None:
    """Say what an experiment needs, and what would mislead; measure nothing."""
    from benchkit.present.notebooks import find_notebook
    from benchkit.present.preview import check_notebook

    path = find_notebook(name)
    click.echo(check_notebook(path, values=_values(path, assignments, profile)))


@main.command()
@click.argument("name")
def new(name: str) -> None:
    """Write a notebook of your own, from a template that runs."""
    from benchkit.present.preview import new_notebook

    click.echo(f"{new_notebook(name)}\nRun it: benchkit run {name} --profile smoke")


@main.command()
@click.argument("name")
@_chosen
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The executed notebook.")
@click.option("--timeout", "timeout_s", type=float, help="Stop after so many seconds.")
def run(
    name: str,
    assignments: tuple[str, ...],
    profile: str | None,
    output: Path | None,
    timeout_s: float | None,
) -> None:
    """Run an experiment and write its executed notebook and HTML report."""
    from benchkit.present.notebooks import find_notebook, run_notebook

    path = find_notebook(name)
    values = _values(path, assignments, profile)
    done = run_notebook(path, values=values, output=output, timeout_s=timeout_s)
    click.echo(f"notebook: {done.notebook}")
    click.echo(f"report:   {done.html}")


@main.command()
@click.argument("candidates", nargs=-1, metavar="BUILD...|GOOD..BAD")
@click.option("--build", "command", default="", help='Builds a commit: "CMD {commit} {prefix}".')
@click.option("--repository", default=".", help="Whose commits GOOD..BAD are.")
@click.option("--script", default="tpcb-like", show_default=True, help="Of pgbench, or a file.")
@click.option("--scale", default=20, show_default=True)
@click.option("--clients", default=8, show_default=True)
@click.option("--duration", "duration_s", default=5, show_default=True, help="Of a trial [s].")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting.")
@click.option("--smallest-change", default=0.05, show_default=True, help="That matters, a share.")
@click.option("--error", default=0.05, show_default=True, help="Probability of a wrong answer.")
@click.option("--fresh-loads", is_flag=True, help="Load the tables anew for every round.")
@click.option("--most-trials", default=400, show_default=True, help="When to give up.")
def bisect(
    candidates: tuple[str, ...],
    command: str,
    repository: str,
    settings: tuple[str, ...],
    smallest_change: float,
    error: float,
    most_trials: int,
    fresh_loads: bool,
    **load: object,
) -> None:
    r"""Find the first build, or commit, where throughput changed.

    \b
    benchkit bisect /opt/pg/a /opt/pg/b /opt/pg/c
    benchkit bisect 8800d8061d..HEAD --repository ~/postgres --build "my-build {commit} {prefix}"

    Candidates are in order, the good one first. Trials of the good one and of those that tell most
    are measured in turns, until the answer has the probability asked for. A killed search goes on
    where it was.
    """
    from benchkit.analysis.bisect import Bisection, Found
    from benchkit.present.search import search_words
    from benchkit.workload.pgbench import Workload

    builds, about = _candidates(candidates, command, repository)
    search = Bisection(
        "bisect",
        builds,
        Workload(**load),  # type: ignore[arg-type]
        settings=dict(_setting(text) for text in settings),
        about=about,
        smallest_change=smallest_change,
        error=error,
        most_trials=most_trials,
        fresh_loads=fresh_loads,
        same_settings=True,
    )
    search.tell = click.echo
    for finding in search.check():
        if finding.severity != "info":
            click.echo(f"{finding.severity}: {finding.name}: {finding.evidence}. {finding.fix}")
    click.echo(search.describe())
    found = Found(search.run())
    for label, why in found.left_out.items():
        click.echo(f"left out: {label}: {why}")
    click.echo(search_words(found))


def _candidates(
    words: tuple[str, ...], command: str, repository: str
) -> tuple[Mapping[str, object] | Sequence[object], dict[str, str]]:
    """Take the words for one range of commits, or for versions and directories in order."""
    from benchkit.postgres.commits import commits

    if not command:
        if ranges := [word for word in words if ".." in word and not Path(word).is_dir()]:
            problem = f"{ranges[0]} is a range of commits: --build says how to build one"
            raise InputError([Fault(where="commits", problem=problem)])
        return [Path(word) if Path(word).is_dir() else word for word in words], {}
    if len(words) != 1:
        problem = f"with --build it is one range GOOD..BAD, not {len(words)} words"
        raise InputError([Fault(where="commits", problem=problem)])
    return commits(repository, words[0], command)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InputError([Fault(where="--set", problem=f"{text!r} is not NAME=VALUE")])
    return name, value


if __name__ == "__main__":
    main()
