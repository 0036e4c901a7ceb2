"""The report of an audit as a page of HTML, with a plot for each topic; pure. It needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from logbus.client.audit_check import Comparison, Verdict
from logbus.pipeline.jobs.audit import AuditReport

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2em }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .25em .6em; border-bottom: 1px solid #ddd }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.complete { color: #17692f }
.missing { color: #b00020; font-weight: bold }
.duplicated { color: #8a5a00; font-weight: bold }
.unknown, .open { color: #666 }
svg { width: 100%; height: auto; background: #fafafa } svg text { font: 11px system-ui, sans-serif; fill: #555 }
"""
_COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b83280", "#4a5568")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 900, 240, 70, 40, 20
_MOST_ROWS = 5000


def page(report: AuditReport, *, made_ms: int) -> str:
    """
    The page.

    :param made_ms: when, in milliseconds since 1970.
    """
    verdict = "records are missing" if report.has_loss else "nothing is missing"
    if report.has_duplicates:
        verdict += ", and some are there more than once"
    topics: dict[str, list[Comparison]] = {}
    for each in report.comparisons:
        topics.setdefault(each.topic, []).append(each)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Audit</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>Audit: {verdict}</h1>",
        f"<p>Made {_time(made_ms)} from {report.events} monitoring events.</p>",
    ]
    if report.unreadable:
        parts.append(
            f"<p>{report.unreadable} records are no monitoring events; the first: {escape(report.problem)}</p>"
        )
    for name, doubled in report.doubled.items():
        for topic, count in doubled.items():
            parts.append(
                f'<p class="duplicated">{escape(name)} holds {count} rows of {escape(topic)} more than there are '
                "offsets.</p>"
            )
    for topic, found in topics.items():
        parts += [f"<h2>{escape(topic)}</h2>", _plot(found), _table(found)]
    parts.append("</body></html>\n")
    return "\n".join(parts)


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _table(found: Sequence[Comparison]) -> str:
    head = "".join(
        f"<th{' class=n' if number else ''}>{name}</th>"
        for name, number in (
            ("window", False),
            ("application", False),
            ("role", False),
            ("published", True),
            ("counted", True),
            ("missing", True),
            ("failed", True),
            ("verdict", False),
        )
    )
    rows = [f"<tr>{head}</tr>"]
    # What is wrong is never left out.
    good = [each for each in found if each.verdict is Verdict.COMPLETE]
    shown = {id(each) for each in good[-_MOST_ROWS:]}
    for each in found:
        if each.verdict is Verdict.COMPLETE and id(each) not in shown:
            continue
        rows.append(
            f"<tr><td>{_time(each.window_start)}</td><td>{escape(each.application)}</td><td>{escape(each.role)}</td>"
            f"<td class=n>{each.published}</td><td class=n>{each.counted}</td><td class=n>{each.missing}</td>"
            f"<td class=n>{each.failed}</td><td class={each.verdict.value}>{each.verdict.value}</td></tr>"
        )
    left = len(good) - len(shown)
    more = f"<p>{left} older windows that are complete are not shown.</p>" if left > 0 else ""
    return f"<table>{''.join(rows)}</table>{more}"


def _plot(found: Sequence[Comparison]) -> str:
    """Lines of what was published and what each counted, over time."""
    published = {each.window_start: each.published for each in found}
    lines = {"published": published}
    for each in found:
        lines.setdefault(f"{each.application} ({each.role})", {})[each.window_start] = each.counted
    starts = sorted(published)
    highest = max((value for line in lines.values() for value in line.values()), default=0) or 1
    span = (starts[-1] - starts[0]) or 1
    width, height = _WIDTH - _LEFT - 10, _HEIGHT - _BOTTOM - _TOP

    def point(start: int, value: int) -> str:
        return f"{_LEFT + (start - starts[0]) / span * width:.1f},{_TOP + height - value / highest * height:.1f}"

    drawn = []
    for index, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        dash = "" if index == 0 else f' stroke-dasharray="{6 + 2 * index} 3"'
        places = [point(start, line[start]) for start in sorted(line)]
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2"{dash} points="{" ".join(places)}"/>')
        drawn += _dots(places, colour)
        drawn.append(
            f'<text x="{_LEFT + 10 + index * 190}" y="{_HEIGHT - 8}" style="fill:{colour}">{escape(name[:28])}</text>'
        )
    axis = (
        f'<line x1="{_LEFT}" y1="{_TOP + height}" x2="{_WIDTH - 10}" y2="{_TOP + height}" stroke="#999"/>'
        f'<text x="{_LEFT - 6}" y="{_TOP + 8}" text-anchor="end">{highest}</text>'
        f'<text x="{_LEFT - 6}" y="{_TOP + height}" text-anchor="end">0</text>'
        f'<text x="{_LEFT}" y="{_TOP + height + 14}">{_time(starts[0])}</text>'
        f'<text x="{_WIDTH - 10}" y="{_TOP + height + 14}" text-anchor="end">{_time(starts[-1])}</text>'
    )
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{axis}{"".join(drawn)}</svg>'


def _dots(places: Iterable[str], colour: str) -> list[str]:
    """A line of one window would not be seen."""
    found = []
    for place in places:
        x, y = place.split(",")
        found.append(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>')
    return found
