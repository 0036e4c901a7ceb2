"""
Makes the pictures of the console in the documentation::

    python -m tests.browser.pictures docs/howto/console
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer
from playwright.sync_api import Page

from logbus.testing import Broker
from tests.browser.chromium import PATIENCE_MS, chromium
from tests.browser.outlines import PICTURES, RECORD, outlines
from tests.browser.sample_data import fill, register_schemas

SECONDS = 180
SIZE = {"width": 1100, "height": 700}


def _be_busy(bootstrap: str) -> None:
    """Write and read for long enough to be seen in the plots, more and less."""
    producer = Producer({"bootstrap.servers": bootstrap})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reports", "auto.offset.reset": "earliest"})
    consumer.subscribe(["clicks"])
    began = time.monotonic()
    while (seconds := time.monotonic() - began) < SECONDS:
        for number in range(int(60 + 40 * math.sin(seconds / 8))):
            producer.produce("clicks", f"/products/{number}", f"visitor-{number % 23}")
        producer.poll(0)
        consumer.consume(1000, timeout=0.1)
    producer.flush(60)
    consumer.close()


def _take(page: Page, url: str, file: Path) -> None:
    page.goto(url)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=file)


def main(directory: Path) -> None:
    """Write a PNG file for each of the pages, and what they consist of."""
    directory.mkdir(parents=True, exist_ok=True)
    with Broker() as broker, chromium() as browser:
        fill(broker.bootstrap, hostile=False)
        register_schemas(broker.admin_url)
        (directory / RECORD).write_text(outlines(broker.admin_url))
        _be_busy(broker.bootstrap)
        page = browser.new_page(viewport={"width": SIZE["width"], "height": SIZE["height"]}, color_scheme="light")
        page.set_default_timeout(PATIENCE_MS)
        for name, path in PICTURES.items():
            _take(page, broker.admin_url + path, directory / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
