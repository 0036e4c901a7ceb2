"""The extra ``docs`` has all that the documentation is built with."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
MODULES = re.compile(r"^\s*\.\. auto\w+:: (logbus[\w.]*)", re.MULTILINE)

#: What Sphinx imports: configuration, extensions, what pages are generated of and what they describe.
BUILD = """
import importlib, json, runpy, sys
refused, modules = json.loads(sys.stdin.read())

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused:
            raise ModuleNotFoundError(f"the extra docs has no {name}", name=name)

sys.meta_path.insert(0, Refuse())
configuration = runpy.run_path("docs/conf.py")
for name in configuration["extensions"]:
    importlib.import_module(name)
importlib.import_module(configuration["html_theme"])
generated = sys.modules["generated"]
for source in generated.SOURCES.values():
    list(source())
for name in modules:
    while name:
        try:
            importlib.import_module(name)
            break
        except ModuleNotFoundError as e:
            # A class or function is named; its module is before that.
            if not (e.name or "").startswith("logbus"):
                raise
            name = name.rpartition(".")[0]
"""


def installed_by(names: list[str]) -> set[str]:
    """The distributions that pip installs for requirements."""
    found: set[str] = set()
    waiting = [Requirement(name) for name in names]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        found.add(name)
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for text in requires(name) or ():
                needed = Requirement(text)
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    waiting.append(needed)
    return found


def test_the_extra_is_enough() -> None:
    """Without what other extras install, everything that the pages are made of can be imported, and is generated."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    given = [setup["options"]["install_requires"], setup["options.extras_require"]["docs"]]
    there = installed_by([line for lines in given for line in lines.split("\n") if line]) | {"logbus", "pip"}
    refused = [
        module
        for module, names in packages_distributions().items()
        if not there & {canonicalize_name(name) for name in names}
    ]
    assert {"pyspark", "kafka", "hypothesis"} <= set(refused)
    pages = [path.read_text() for path in DOCS.rglob("*.rst") if "_build" not in path.parts]
    modules = sorted({name for page in pages for name in MODULES.findall(page)})
    assert modules
    done = subprocess.run(
        [sys.executable, "-c", BUILD],
        input=json.dumps([refused, modules]),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
