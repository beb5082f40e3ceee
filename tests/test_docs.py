"""What the documentation says of versions is what the registry says."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_table_of_versions_is_what_the_registry_says() -> None:
    made = runpy.run_path(str(DOCS / "make_versions.py"))
    assert (DOCS / "versions.md").read_text("utf-8") == made["text"](), (
        "run: python docs/make_versions.py"
    )
