"""Runs a Prometheus that scrapes brokers and evaluates the rules."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml
from attrs import frozen

from logbus.testing.held_ports import HeldPorts

T = TypeVar("T")

PROMETHEUS = shutil.which("prometheus")
RULES = Path(__file__).parents[2] / "deploy" / "prometheus"
PATIENCE = 180.0


@frozen
class Server:
    """
    A Prometheus.

    :ivar url: its HTTP address.
    """

    url: str

    def ask(self, path: str, **parameters: str) -> Any:
        """What its API answers."""
        with urllib.request.urlopen(
            f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=PATIENCE
        ) as answer:
            return json.load(answer)["data"]

    def series(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now."""
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def history(self, expression: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """The series that an expression had in a span of time, with a value for each step."""
        found: list[dict[str, Any]] = self.ask(
            "query_range", query=expression, start=str(start), end=str(end), step=str(step)
        )["result"]
        return found


def wait_for(look: Callable[[], T | None], what: str) -> T:
    """Return what is found once something is; servers that are not up yet have nothing."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            found = look()
        except (urllib.error.URLError, ConnectionError):
            found = None
        if found:
            return found
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@contextmanager
def prometheus(
    directory: Path, brokers: Mapping[str, str], interval: str = "250ms", **scraping: object
) -> Iterator[Server]:
    """
    A Prometheus that has scraped brokers once.

    :param brokers: the names of instances, and their admin listeners' URLs.
    :param interval: between scrapes, and between evaluations of the rules.
    :param scraping: more settings of the scrape.
    """
    ports = HeldPorts()
    port = ports.free("127.0.0.1")
    targets = [
        {"targets": [url.removeprefix("http://")], "labels": {"instance": name}} for name, url in brokers.items()
    ]
    (directory / "prometheus.yml").write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": interval, "evaluation_interval": interval},
                "rule_files": [str(path) for path in RULES.glob("*.yml")],
                "scrape_configs": [{"job_name": "logbus", "static_configs": targets, **scraping}],
            }
        )
    )
    with (directory / "log").open("wb") as log:
        command = [
            str(PROMETHEUS),
            f"--config.file={directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)
    try:
        server = Server(f"http://127.0.0.1:{port}")
        wait_for(lambda: server.series("logbus_partitions"), (directory / "log").read_text())
        yield server
    finally:
        process.terminate()
        process.wait(PATIENCE)
        ports.close()
