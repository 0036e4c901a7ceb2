"""Finds Chromium, and starts it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
EXECUTABLE = next((path for name in NAMES if (path := shutil.which(name))), None)

PATIENCE_MS = 60_000
"""What a test waits for comes in less than a second, unless the machine does something else."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    # Chromium's sandbox does not run as root, and its shared memory may be too small in a container.
    options = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=options, timeout=2 * PATIENCE_MS)
        try:
            yield browser
        finally:
            browser.close()
