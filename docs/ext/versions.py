"""
Versions of the documentation: each page says which one it is, and, on a site with several, leads to the others.

A site has a directory for each version, and ``versions.json`` beside them, which this makes::

    python docs/ext/versions.py site
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REDIRECT = (
    '<!DOCTYPE html>\n<meta charset="utf-8">\n<title>logbus</title>\n<meta http-equiv="refresh" content="0; url={}">\n'
)


def built_from() -> str:
    """Return the commit that the pages are made of, or nothing outside of a checkout; ``LOGBUS_COMMIT`` replaces it."""
    if "LOGBUS_COMMIT" in os.environ:
        return os.environ["LOGBUS_COMMIT"]
    try:
        command = ["git", "describe", "--always", "--tags", "--dirty"]
        return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def listed(names: list[str]) -> list[dict[str, Any]]:
    """
    Return the versions, the newest first, then what has no number, such as ``main``; the first of all is preferred.

    Its members are those of the version switchers of other themes.
    """

    def order(name: str) -> tuple[bool, list[int], str]:
        return not name[:1].isdigit(), [-int(part) for part in re.findall(r"\d+", name)], name

    return [
        {"version": name, "url": f"{name}/", "preferred": not at} for at, name in enumerate(sorted(names, key=order))
    ]


def index(site: Path) -> list[str]:
    """Write the list of a site's versions, and a page that leads to the preferred one."""
    versions = listed([page.parent.name for page in site.glob("*/index.html")])
    (site / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")
    if versions:
        (site / "index.html").write_text(REDIRECT.format(versions[0]["url"]))
    return [version["version"] for version in versions]


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.config.templates_path.append(str(HERE.parent / "_templates"))
    app.config.html_context["built_from"] = built_from()
    app.add_js_file("versions.js", loading_method="defer")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    print("versions:", ", ".join(index(Path(sys.argv[1]))))
