"""Draws panels of the dashboard as SVG, each at its place: what Grafana would show of the same series."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from xml.sax.saxutils import escape

from attrs import frozen

from logbus.console.plot import ceiling
from tests.deploy.dashboard import Panel

WIDTH, COLUMNS, ROW = 1100, 24, 28
GAP, INDENT = 5, 12
TITLE, PLOT_TOP, PLOT_LEFT, BELOW = 24, 38, 74, 72
LETTER = 7.4
"""What a letter of a legend is wide, on the average."""
LEGEND_LINES, LINE, SWATCH, COUNT = 2, 20, 20, 90
MANY = 6
"""Lines, of which the legend may not have room for all."""
COLOURS = ("#0f766e", "#b45309", "#4f46e5", "#be185d", "#4d7c0f", "#0369a1", "#a16207", "#7e22ce", "#b91c1c", "#475569")
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #475569; }
  .title { font-weight: 600; font-size: 15px; fill: #0f172a; }
  .right { text-anchor: end; } .middle { text-anchor: middle; }
  .panel { fill: #fff; stroke: #cbd5e1; } .grid { stroke: #e2e8f0; }
  polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
"""


@frozen
class Series:
    """
    A line of a plot.

    :ivar points: shares of the time span, and values, in order; a gap is a None.
    """

    label: str
    points: Sequence[tuple[float, float] | None]


def _scaled(suffixes: Sequence[str], step: float) -> Callable[[float], str]:
    def shown(value: float) -> str:
        left = list(suffixes)
        while value >= step and len(left) > 1:
            value /= step
            left.pop(0)
        return f"{value:.3g}{left[0]}"

    return shown


def _seconds(value: float) -> str:
    return (
        f"{value:.3g} s"
        if value >= 1 or not value
        else f"{1000 * value:.3g} ms"
        if value >= 0.001
        else f"{1e6 * value:.3g} µs"
    )


UNITS: Mapping[str, Callable[[float], str]] = MappingProxyType(
    {
        "short": _scaled(("", " K", " Mil"), 1000),
        "reqps": _scaled((" req/s", "K req/s", "M req/s"), 1000),
        "cps": _scaled((" c/s", "K c/s", "M c/s"), 1000),
        "Bps": _scaled((" B/s", " kB/s", " MB/s", " GB/s"), 1000),
        "bytes": _scaled((" B", " KiB", " MiB", " GiB"), 1024),
        "percentunit": lambda value: f"{100 * value:.3g}%",
        "s": _seconds,
    }
)
"""How Grafana shows values, by the unit of their panel."""


def draw(panels: Sequence[tuple[Panel, Sequence[Series]]], times: Sequence[str]) -> str:
    """
    Return the SVG drawing of some rows of the dashboard.

    :param panels: with what they show.
    :param times: names of moments of the time span, at equal distances.
    """
    top = min(panel.place[1] for panel, _ in panels)
    height = ROW * max(panel.place[1] + panel.place[3] - top for panel, _ in panels)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#f1f5f9"/>',
    ]
    for panel, series in panels:
        x, y, width, rows = panel.place
        left, width = x * WIDTH // COLUMNS + GAP, width * WIDTH // COLUMNS - 2 * GAP
        lines.append(f'<g transform="translate({left} {(y - top) * ROW + GAP})">')
        lines += _panel(panel, series, times, width, rows * ROW - 2 * GAP)
        lines.append("</g>")
    return "\n".join([*lines, "</svg>", ""])


def _panel(panel: Panel, series: Sequence[Series], times: Sequence[str], width: int, height: int) -> list[str]:
    shown = UNITS[panel.unit]
    bottom, right = height - BELOW, width - INDENT
    lines = [
        f'<rect class="panel" width="{width}" height="{height}" rx="3"/>',
        f'<text class="title" x="{INDENT}" y="{TITLE}">{escape(panel.title)}</text>',
    ]
    if not any(one.points for one in series):
        return [*lines, f'<text class="middle" x="{width // 2}" y="{height // 2 + 5}">No data</text>']
    if len(series) > MANY:
        # Those that are high find room in the legend.
        series = sorted(series, key=_highest, reverse=True)
    top = _ceiling(max(map(_highest, series)), panel.unit)
    for share in (0.0, 0.5, 1.0):
        y = bottom - round(share * (bottom - PLOT_TOP))
        lines.append(f'<line class="grid" x1="{PLOT_LEFT}" x2="{right}" y1="{y}" y2="{y}"/>')
        lines.append(f'<text class="right" x="{PLOT_LEFT - 8}" y="{y + 4}">{shown(share * top)}</text>')
    for number, time in enumerate(times):
        x = PLOT_LEFT + (right - PLOT_LEFT) * number // (len(times) - 1)
        lines.append(f'<text class="{"right" if x == right else "middle"}" x="{x}" y="{bottom + 18}">{time}</text>')
    for number, one in enumerate(series):
        for run in _runs(one.points, top, right - PLOT_LEFT, bottom - PLOT_TOP):
            places = " ".join(f"{PLOT_LEFT + x},{bottom - y}" for x, y in run)
            lines.append(f'<polyline stroke="{COLOURS[number % len(COLOURS)]}" points="{places}"/>')
    return lines + _legend([one.label for one in series], width, bottom + 40)


def _highest(series: Series) -> float:
    return max((point[1] for point in series.points if point), default=0.0)


def _ceiling(value: float, unit: str) -> float:
    """Return a round number that is not less, as the unit is shown."""
    scale = 1
    while unit == "bytes" and value >= 1024 * scale:
        scale *= 1024
    return scale * ceiling(value / scale)


def _runs(
    points: Sequence[tuple[float, float] | None], top: float, width: int, height: int
) -> list[list[tuple[int, int]]]:
    """Return the lines between gaps, without what lies on the way between its neighbours."""
    runs: list[list[tuple[int, int]]] = [[]]
    for point in points:
        if point is None:
            runs.append([])
            continue
        run = runs[-1]
        place = round(point[0] * width), round(point[1] / top * height)
        if len(run) > 1 and run[-1][1] == run[-2][1] == place[1]:
            run.pop()
        run.append(place)
    # A value alone is a short line.
    return [run if len(run) > 1 else [run[0], (run[0][0] + 1, run[0][1])] for run in runs if run]


def _legend(labels: Sequence[str], width: int, y: int) -> list[str]:
    """Return the names of the lines, one beside the other; what finds no room is counted."""
    drawn = []
    x, line = INDENT, 1
    for number, label in enumerate(labels):
        needed = SWATCH + int(LETTER * len(label)) + INDENT
        room = width - x - (COUNT if line == LEGEND_LINES and number < len(labels) - 1 else 0)
        if needed > room and line == LEGEND_LINES:
            return [*drawn, f'<text x="{x}" y="{y}">and {len(labels) - number} more</text>']
        if needed > room:
            x, y, line = INDENT, y + LINE, line + 1
        colour = COLOURS[number % len(COLOURS)]
        drawn.append(f'<rect x="{x}" y="{y - 6}" width="{SWATCH - 6}" height="3" fill="{colour}"/>')
        drawn.append(f'<text x="{x + SWATCH}" y="{y}">{escape(label)}</text>')
        x += needed
    return drawn
