"""The Grafana dashboard as far as tests look into it, and the record of what the pictures of it show."""

from __future__ import annotations

import json
from pathlib import Path

from attrs import frozen

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "logbus.json"
PICTURES = Path(__file__).parents[2] / "docs" / "howto" / "dashboard"
RECORD = "panels.txt"
"""The file beside the pictures with the panels they were made of: it tells when they are out of date."""


@frozen
class Query:
    """
    A query of a panel.

    :ivar expression: with the variables of the dashboard, as ``$job``.
    :ivar legend: what its series are called, with labels of theirs as ``{{topic}}``.
    """

    expression: str
    legend: str

    @property
    def of_all(self) -> str:
        """The expression if "All" is chosen for each variable."""
        return self.expression.replace("$job", ".+").replace("$instance", ".+")


@frozen
class Panel:
    """
    A panel: queries that share a plot.

    :ivar place: left edge, top, width and height; the dashboard is 24 wide.
    """

    title: str
    description: str
    unit: str
    place: tuple[int, int, int, int]
    queries: tuple[Query, ...]


def panels() -> list[Panel]:
    """The panels of the dashboard, in its order."""
    return [
        Panel(
            panel["title"],
            panel["description"],
            panel["fieldConfig"]["defaults"]["unit"],
            tuple(panel["gridPos"][name] for name in "xywh"),  # type: ignore[arg-type]
            tuple(Query(target["expr"], target["legendFormat"]) for target in panel["targets"]),
        )
        for panel in json.loads(DASHBOARD.read_text())["panels"]
    ]


def outline() -> str:
    """What is in the pictures: titles, places and units of panels, and what they ask for."""
    lines = []
    for panel in panels():
        lines.append(f"{panel.title} ({panel.unit}, at {' '.join(map(str, panel.place))})")
        if panel.description:
            lines.append(f"  {panel.description}")
        lines += [f"  {query.legend}: {query.expression}" for query in panel.queries]
    return "\n".join(lines) + "\n"
