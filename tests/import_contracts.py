"""Import-linter contracts that find their modules themselves; ``pyproject.toml`` names them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from grimp import ImportGraph
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.domain import fields
from importlinter.domain.contract import ContractCheck
from importlinter.domain.imports import ModuleExpression

ROOT = Path(__file__).parent.parent
_PURE = re.compile(r"\bpure\b", re.IGNORECASE)


def docstrings(package: str = "logbus") -> Iterator[tuple[str, str]]:
    """The dotted names of all modules of a package, with their docstrings."""
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield name, ast.get_docstring(ast.parse(path.read_bytes())) or ""


def is_pure(docstring: str, *, is_package: bool) -> bool:
    """
    Whether a docstring says "pure".

    Of a package only the first paragraph counts: the map of its modules follows.
    """
    return _PURE.search(docstring.partition("\n\n")[0] if is_package else docstring) is not None


def pure_modules(package: str = "logbus") -> set[str]:
    """The modules and packages whose docstring says that they are pure."""
    return {
        name
        for name, docstring in docstrings(package)
        if is_pure(docstring, is_package=(ROOT / name.replace(".", "/")).is_dir())
    }


class PureContract(ForbiddenContract):
    """
    Modules whose docstring says "pure" do not import the forbidden modules, neither themselves nor through others.
    """

    type_name = "pure"
    source_modules = fields.SetField(subfield=fields.ModuleExpressionField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find the modules, and check them."""
        self.source_modules = {ModuleExpression(name) for name in pure_modules()}
        return super().check(graph, verbose)
