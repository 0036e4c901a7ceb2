"""
Draws time series as SVG, on the server.

Lines are in the colours of the style sheet: the console's Content-Security-Policy has no place for styles in pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.web.template import Tag, tags

from logbus.admin.metric_history import SAMPLES, Points

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 560, 150, 4, 22, 20
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def plot(
    title: str, series: Sequence[tuple[str, Points]], shown: Callable[[float], str], hour: int = SAMPLES - 1
) -> Tag:
    """
    Return a plot of the last hour with its legend; the newest values are in words.

    :param shown: returns a value with its unit.
    :param hour: points of an hour.
    """
    highest = max((value for _, points in series for value in points if value is not None), default=0.0)
    top = ceiling(highest)
    legend = tags.ul(
        [
            tags.li(tags.span(class_=f"swatch line{at}"), label, " ", tags.strong(_now(points, shown)))
            for at, (label, points) in enumerate(series)
        ],
        class_="legend",
    )
    if not any(value is not None for _, points in series for value in points):
        return _figure(title, tags.p("No values yet.", class_="note"))
    words = "; ".join(f"{label}: now {_now(points, shown)}" for label, points in series)
    # Tags that twisted.web.template does not know are made by hand.
    drawing = Tag("svg")(
        Tag("title")(f"{title}, last hour. {words}; highest {shown(highest)}."),
        _line(0.0, "grid base"),
        _line(0.5, "grid"),
        _line(1.0, "grid"),
        Tag("text")(shown(top), x=str(LEFT), y=str(TOP - 7)),
        Tag("text")("1 h ago", x=str(LEFT), y=str(HEIGHT - 4)),
        Tag("text")("now", x=str(WIDTH - 4), y=str(HEIGHT - 4), **{"text-anchor": "end"}),
        [
            Tag("polyline")(points=run, class_=f"line line{at}")
            for at, (_, points) in enumerate(series)
            for run in _runs(points, top, hour)
        ],
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        class_="plot",
    )
    return _figure(title, drawing, legend)


def ceiling(value: float) -> float:
    """Return a round number that is not less."""
    if value < 1e-9:
        return 1.0
    scale = 1.0
    while scale * 10 < value:
        scale *= 10
    while scale >= value:
        scale /= 10
    return next((scale * step for step in _STEPS if scale * step >= value), scale * 10)


def _figure(title: str, *content: Any) -> Tag:
    return tags.figure(tags.figcaption(title), *content)


def _now(points: Points, shown: Callable[[float], str]) -> str:
    newest = points[-1] if points else None
    return "–" if newest is None else shown(newest)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _line(share: float, kind: str) -> Tag:
    y = f"{_y(share):.1f}"
    return Tag("line")(x1="0", x2=str(WIDTH), y1=y, y2=y, class_=kind)


def _runs(points: Points, top: float, hour: int) -> list[str]:
    """Return the lines between gaps; a value alone is a short line."""
    step = (WIDTH - 2 * LEFT) / (hour - 1)
    start = WIDTH - LEFT - (len(points) - 1) * step
    runs: list[list[str]] = [[]]
    for at, value in enumerate(points):
        if value is None:
            runs.append([])
            continue
        x, y = start + at * step, _y(min(value / top, 1.0))
        runs[-1].append(f"{x:.1f},{y:.1f}")
    made = [
        run if len(run) > 1 else [run[0], f"{float(run[0].partition(',')[0]) - 1:.1f},{run[0].partition(',')[2]}"]
        for run in runs
        if run
    ]
    return [" ".join(run) for run in made]
