"""Which kernel runs a notebook; and what counts as its end."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.present.execution import own_kernel


def kernel(directory: Path, name: str, program: str) -> None:
    place = directory / "kernels" / name
    place.mkdir(parents=True)
    spec = {"argv": [program, "-m", "ipykernel_launcher"], "display_name": name}
    (place / "kernel.json").write_text(json.dumps({**spec, "language": "python"}))


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a directory whose kernels are found before all others."""
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    return tmp_path


def test_the_environments_kernel_is_ours() -> None:
    assert own_kernel() == "python3"


def test_a_kernel_of_another_python_is_passed_over(kernels: Path) -> None:
    kernel(kernels, "python3", "/elsewhere/bin/python3")
    kernel(kernels, "mine", sys.executable)
    assert own_kernel() == "mine"


def test_the_same_program_in_another_environment_is_another_python(kernels: Path) -> None:
    program = kernels / "bin" / "python"
    program.parent.mkdir()
    program.symlink_to(Path(sys.executable).resolve())
    kernel(kernels, "python3", str(program))
    with pytest.raises(InputError) as caught:
        own_kernel()
    assert f"python3 runs {program}" in str(caught.value)
    assert f"{sys.executable} -m ipykernel install" in str(caught.value)


def test_another_name_of_our_python_is_ours(kernels: Path) -> None:
    names = [
        path
        for path in Path(sys.executable).parent.glob("python*")
        if path.resolve() == Path(sys.executable).resolve() and path != Path(sys.executable)
    ]
    if not names:
        pytest.skip("this Python has one name only")
    kernel(kernels, "python3", os.fspath(names[0]))
    assert own_kernel() == "python3"
