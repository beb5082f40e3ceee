"""The house: rooms on one corridor, no cycles, small modules, nothing heavy at import."""

from __future__ import annotations

import ast
import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import benchkit

ROOT = Path(benchkit.__file__).parent
ROOMS = ["postgres", "workload", "measure", "experiment", "analysis", "present"]
FOUNDATION = ["errors", "units"]
HEAVY = ["IPython", "matplotlib", "nbconvert", "pandas", "papermill", "pyarrow", "scipy", "seaborn"]
MODULE_LINES = 350
FUNCTION_LINES = 45

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Module:
    """One module of the package, parsed."""

    name: str
    text: str
    package: bool

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        """The room it is in, or its own name where it is in none."""
        return [*self.name.split("."), "benchkit"][1] if self.name != "benchkit" else "benchkit"


@functools.cache
def modules() -> dict[str, Module]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ["benchkit", *path.relative_to(ROOT).with_suffix("").parts]
        package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if package else parts)
        found[name] = Module(name=name, text=path.read_text("utf-8"), package=package)
    return found


def imported(module: Module) -> Iterator[str]:
    """Every module of the package that a module imports, wherever in it the import stands."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _ours(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = _base(module, node)
            for alias in node.names:
                yield from _ours(base, alias.name)
        elif isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func)
            first = node.args[0]
            if called.endswith(("import_module", "__import__")) and isinstance(first, ast.Constant):
                yield from _ours(str(first.value))


def _base(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    parts = parts[: len(parts) - node.level + module.package]
    return ".".join([*parts, *filter(None, [node.module])])


def _ours(base: str, name: str = "") -> Iterator[str]:
    if base.split(".")[0] != "benchkit":
        return
    if f"{base}.{name}" in modules():
        yield f"{base}.{name}"
    elif base == "benchkit":
        yield homes().get(name, "benchkit")
    else:
        yield base


@functools.cache
def homes() -> dict[str, str]:
    """Where the names live that ``from benchkit import ...`` gives."""
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(modules()["benchkit"].tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if node.module.startswith("benchkit.")
    }


def functions(module: Module) -> Iterator[tuple[str, Function]]:
    for node in ast.walk(module.tree):
        if isinstance(node, Function):
            yield f"{module.name}.{node.name} (line {node.lineno})", node


def public(
    owner: ast.Module | ast.ClassDef, place: str
) -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """The public functions and classes, and the public methods of public classes."""
    for node in owner.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield f"{place}.{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from public(node, f"{place}.{node.name}")


def code_lines(module: Module, node: Function) -> int:
    """Lines of a function that are neither its docstring, nor blank, nor only a comment."""
    lines = module.text.splitlines()
    numbers = set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    first = node.body[0]
    if ast.get_docstring(node) is not None:
        numbers -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    texts = (lines[number - 1].strip() for number in numbers)
    return sum(1 for text in texts if text and not text.startswith("#"))


def missing_annotations(node: Function) -> list[str]:
    given = node.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    missing = [
        item.arg
        for item in arguments
        if item is not None and item.annotation is None and item.arg not in ("self", "cls")
    ]
    return missing + (["return"] if node.returns is None else [])


def test_there_is_a_package_to_look_at() -> None:
    assert {module.room for module in modules().values()} >= {*ROOMS, *FOUNDATION}
    assert "benchkit.errors" in set(imported(modules()["benchkit.units"]))


def test_imports_are_seen_in_every_form() -> None:
    text = (
        "import benchkit.units\n"
        "from . import cluster\n"
        "from ..errors import InputError\n"
        "from benchkit import Experiment\n"
        "if TYPE_CHECKING:\n    from benchkit.postgres.builds import Build\n"
        "def f():\n    from benchkit.measure import host\n"
        "    importlib.import_module('benchkit.present.plots')\n"
    )
    module = Module(name="benchkit.postgres.invented", text=text, package=False)
    assert set(imported(module)) == {
        "benchkit.units",
        "benchkit.postgres.cluster",
        "benchkit.errors",
        "benchkit.experiment.run",
        "benchkit.postgres.builds",
        "benchkit.measure.host",
        "benchkit.present.plots",
    }


def test_rooms_import_only_from_rooms_to_their_left() -> None:
    order = {name: place for place, name in enumerate(["benchkit", *FOUNDATION, *ROOMS, "cli"])}
    wrong = [
        f"{module.name} imports {target}"
        for module in modules().values()
        if module.name != "benchkit"
        for target in imported(module)
        if order[modules()[target].room] > order[module.room]
    ]
    assert not wrong


def test_no_module_imports_itself_by_a_detour() -> None:
    # The package itself names everything lazily; its version may be read by all.
    graph = {
        module.name: {name for name in imported(module) if name != "benchkit"}
        for module in modules().values()
        if module.name != "benchkit"
    }
    cycles = [name for name in graph if name in _reached(graph, name)]
    assert not cycles


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    ahead = list(graph[start])
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += graph[name]
    return reached


def test_everything_public_has_a_docstring() -> None:
    bare = [
        name
        for module in modules().values()
        for name, node in [(module.name, module.tree), *public(module.tree, module.name)]
        if len((ast.get_docstring(node) or "").split()) < 2  # a word alone says nothing
    ]
    assert not bare


def test_every_function_is_annotated() -> None:
    bare = [
        f"{name}: {', '.join(missing)}"
        for module in modules().values()
        for name, node in functions(module)
        if (missing := missing_annotations(node))
    ]
    assert not bare


def test_modules_are_small() -> None:
    counts = {name: len(module.text.splitlines()) for name, module in modules().items()}
    assert not {name: count for name, count in counts.items() if count > MODULE_LINES}


def test_functions_are_small() -> None:
    counts = {
        name: code_lines(module, node)
        for module in modules().values()
        for name, node in functions(module)
    }
    assert not {name: count for name, count in counts.items() if count > FUNCTION_LINES}


@pytest.mark.parametrize(
    "names",
    [["benchkit"], sorted(modules())],
    ids=["the package", "all of its modules"],
)
def test_import_loads_nothing_heavy(names: list[str]) -> None:
    code = (
        f"import json, sys\nfor name in {names!r}:\n    __import__(name)\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent
    )
    assert not set(HEAVY) & set(json.loads(done.stdout))
    assert not done.stderr


@pytest.mark.parametrize("name", benchkit.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(benchkit, name) is not None


def test_public_names_are_sorted_and_declared_once() -> None:
    assert len(set(benchkit.__all__)) == len(benchkit.__all__)
    assert set(benchkit.__all__) - {"__version__"} == set(homes())


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nosuch"):
        _ = benchkit.nosuch
