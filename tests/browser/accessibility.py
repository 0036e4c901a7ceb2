"""Looks at a page as it is on a telephone and on a desk, in light and dark: with axe, and for a screenshot."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

SMALL, LARGE = 360, 1600
"""Widths of a window in CSS pixels."""
GRAVE = {"serious", "critical"}
SCREENSHOTS = os.environ.get("LOGBUS_SCREENSHOTS")
"""The directory where pictures of all pages go; CI keeps it."""
LOOKS: tuple[tuple[int, Literal["light", "dark"]], ...] = (
    (LARGE, "light"),
    (LARGE, "dark"),
    (SMALL, "dark"),
    (SMALL, "light"),
)
#: What is dark differs from what is light in colours only.
OPTIONS = {
    "light": {"resultTypes": ["violations"]},
    "dark": {"resultTypes": ["violations"], "runOnly": ["color-contrast"]},
}
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def faults_of(page: Page, name: str) -> list[str]:
    """Return what is wrong with the shown page: what axe finds serious, and that it is wider than its window."""
    faults = []
    page.evaluate(AXE_SCRIPT)
    for width, scheme in LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        look = f"{name}, {width} pixels, {scheme}"
        if (wide := page.evaluate(WIDER)) > 0:
            faults.append(f"{look}: it is {wide} pixels wider than its window")
        for violation in page.evaluate(f"axe.run({json.dumps(OPTIONS[scheme])})")["violations"]:
            if violation["impact"] in GRAVE:
                elements = "; ".join(node["html"] for node in violation["nodes"][:3])
                faults.append(f"{look}: {violation['help']}: {elements}")
        if SCREENSHOTS:
            file = re.sub(r"[^\w.-]+", "-", name).strip("-") or "overview"
            page.screenshot(path=Path(SCREENSHOTS) / f"{file}-{width}-{scheme}.png", full_page=True)
    return faults
