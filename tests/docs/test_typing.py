"""Type-checks the examples of pages about the client, and what mypy should know about it, in strict mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page_examples import examples_of
from tests.strict_mypy import strict_mypy

ROOT = Path(__file__).parent.parent.parent
PAGES = ("howto/twisted-client.rst", "howto/asyncio-client.rst", "howto/serializers.rst")


def test_examples_are_typed(tmp_path: Path) -> None:
    """
    Each program of these pages is without a complaint under ``--strict``.
    """
    programs = list[str]()
    for page in PAGES:
        for number, example in enumerate(examples_of(ROOT / "docs" / page)):
            if example.language == "python" and ("reactor: Any" in example.body or "-> None:" in example.body):
                program = tmp_path / f"{Path(page).stem.replace('-', '_')}_{number}.py"
                program.write_text(example.body)
                programs.append(str(program))
    assert len(programs) > 10
    programs.append(str(ROOT / "tests" / "client" / "typed_programs.py"))
    checked = strict_mypy(
        "--no-incremental", "--follow-imports=silent", f"--config-file={ROOT / 'pyproject.toml'}", *programs
    )
    if checked.returncode:
        pytest.fail(checked.stdout + checked.stderr)
