"""Draws the published and counted records of a topic over time, as SVG for an HTML page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from logbus.client.audit.audit_comparison import AuditComparison
from logbus.pipeline.jobs.time_text import time_text

_COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b83280", "#4a5568")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _AXIS = 900, 240, 70, 10, 20, 22
_LEGEND_WIDTH, _LEGEND_HEIGHT = 205, 16
_LEGENDS = (_WIDTH - _LEFT - _RIGHT) // _LEGEND_WIDTH
_LETTERS = 30
_MOST_DOTS = 200
_MOST_LINES = 24


def plot(found: Sequence[AuditComparison]) -> str:
    """
    The plot.

    :param found: the comparisons of one topic; at least one.
    """
    lines = {"published": {each.window_start: each.published for each in found}}
    left_out = 0
    for each in found:
        name = f"{each.application} ({each.role})"
        if name not in lines and len(lines) > _MOST_LINES:
            left_out += 1
            continue
        lines.setdefault(name, {})[each.window_start] = each.counted
    starts = sorted(lines["published"])
    highest = max(value for line in lines.values() for value in line.values()) or 1
    legend_rows = -(-len(lines) // _LEGENDS)
    drawn = [_axes(starts, highest)]
    for index, (name, line) in enumerate(lines.items()):
        drawn.append(_line(index, [_point(starts, highest, start, line[start]) for start in sorted(line)]))
        drawn.append(_legend(index, name))
    height = _HEIGHT + _AXIS + legend_rows * _LEGEND_HEIGHT
    more = "<p>Not all applications are drawn.</p>" if left_out else ""
    label = escape(f"records of {found[0].topic}, by window")
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">{"".join(drawn)}</svg>{more}'


def _point(starts: Sequence[int], highest: int, start: int, value: int) -> tuple[str, str]:
    """The coordinates of a count: time from left to right, zero at the bottom, the highest count at the top."""
    span = (starts[-1] - starts[0]) or 1
    x = _LEFT + (start - starts[0]) / span * (_WIDTH - _LEFT - _RIGHT)
    y = _HEIGHT - value / highest * (_HEIGHT - _TOP)
    return f"{x:.1f}", f"{y:.1f}"


def _line(index: int, points: Sequence[tuple[str, str]]) -> str:
    colour = _COLOURS[index % len(_COLOURS)]
    # Dashes keep lines visible that coincide.
    dash = f' stroke-dasharray="{6 + 2 * index} {3 + index}"' if index else ""
    places = " ".join(f"{x},{y}" for x, y in points)
    drawn = f'<polyline fill="none" stroke="{colour}" stroke-width="2"{dash} points="{places}"/>'
    if len(points) <= _MOST_DOTS:
        # A line with one window would be invisible.
        drawn += "".join(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>' for x, y in points)
    return drawn


def _legend(index: int, name: str) -> str:
    x = _LEFT + index % _LEGENDS * _LEGEND_WIDTH
    y = _HEIGHT + _AXIS + (index // _LEGENDS) * _LEGEND_HEIGHT + 8
    short = name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"
    return f'<text x="{x}" y="{y}" style="fill:{_COLOURS[index % len(_COLOURS)]}">{escape(short)}</text>'


def _axes(starts: Sequence[int], highest: int) -> str:
    right = _WIDTH - _RIGHT
    return (
        f'<line x1="{_LEFT}" y1="{_HEIGHT}" x2="{right}" y2="{_HEIGHT}" stroke="#999"/>'
        f'<text x="{_LEFT - 6}" y="{_TOP + 4}" text-anchor="end">{highest}</text>'
        f'<text x="{_LEFT - 6}" y="{_HEIGHT}" text-anchor="end">0</text>'
        f'<text x="{_LEFT}" y="{_HEIGHT + 14}">{time_text(starts[0])}</text>'
        f'<text x="{right}" y="{_HEIGHT + 14}" text-anchor="end">{time_text(starts[-1])}</text>'
    )
