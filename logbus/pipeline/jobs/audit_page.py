"""Renders an audit report as a self-contained HTML page, with a plot for each topic. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from logbus.client.audit.audit_comparison import AuditComparison, AuditVerdict
from logbus.pipeline.jobs.audit import AuditReport
from logbus.pipeline.jobs.audit_plot import plot
from logbus.pipeline.jobs.time_text import time_text

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2em }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .25em .6em; border-bottom: 1px solid #ddd }
.n { text-align: right; font-variant-numeric: tabular-nums }
.complete { color: #17692f }
.missing { color: #b00020; font-weight: bold }
.duplicated { color: #8a5a00; font-weight: bold }
.unknown { color: #b00020 }
.open { color: #666 }
svg { width: 100%; height: auto; background: #fafafa } svg text { font: 11px system-ui, sans-serif; fill: #555 }
"""
_HEAD = (
    "<thead><tr><th>window</th><th>application</th><th>role</th>"
    '<th class="n">published</th><th class="n">counted</th><th class="n">missing</th><th class="n">failed</th>'
    "<th>verdict</th></tr></thead>"
)
_MOST_ROWS = 5000
"""The most complete windows of a topic that are shown. Incomplete ones are always shown."""


def page(report: AuditReport, *, made_ms: int) -> str:
    """
    The page.

    :param made_ms: the time of the report, in milliseconds since 1970.
    """
    topics: dict[str, list[AuditComparison]] = {}
    for each in report.comparisons:
        topics.setdefault(each.topic, []).append(each)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Audit</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>Audit: {_verdict(report)}</h1>",
        f"<p>Made {time_text(made_ms)} from {report.events} monitoring events.</p>",
        *(f'<p class="unknown">{escape(sentence)}</p>' for sentence in report.unknown),
    ]
    parts += [f'<p class="unknown">{escape(sentence)}</p>' for sentence in report.exceeded]
    if report.unreadable:
        parts.append(
            f'<p class="unknown">{report.unreadable} records are no monitoring events; the first: '
            f"{escape(report.problem)}</p>"
        )
    for name, doubled in report.doubled.items():
        parts += [
            f'<p class="duplicated">{escape(name)}: {count} rows of {escape(topic)} have an offset that another row '
            "has.</p>"
            for topic, count in doubled.items()
        ]
    for topic, found in topics.items():
        parts += [f"<h2>{escape(topic)}</h2>", plot(found), _table(found)]
    for name, notes in report.notes.items():
        if notes:
            items = "".join(f"<li>{escape(note)}</li>" for note in notes)
            parts.append(f"<h2>What {escape(name)} does not hold</h2><ul>{items}</ul>")
    parts.append("</body></html>\n")
    return "\n".join(parts)


def _verdict(report: AuditReport) -> str:
    if any(each.verdict is AuditVerdict.MISSING for each in report.comparisons):
        message = "records are missing"
    elif report.has_loss:
        message = "it is unknown whether records are missing"
    elif all(each.verdict is AuditVerdict.OPEN for each in report.comparisons):
        message = "there is nothing to judge yet"
    else:
        message = "nothing is missing"
    return f"{message}, and some are there more than once" if report.has_duplicates else message


def _table(found: Sequence[AuditComparison]) -> str:
    good = [each for each in found if each.verdict is AuditVerdict.COMPLETE]
    hidden = {id(each) for each in good[:-_MOST_ROWS]}
    rows = [_row(each) for each in found if id(each) not in hidden]
    more = f"<p>{len(hidden)} older windows that are complete are not shown.</p>" if hidden else ""
    return f"<table>{_HEAD}<tbody>{''.join(rows)}</tbody></table>{more}"


def _row(each: AuditComparison) -> str:
    numbers = (each.published, each.counted, each.missing, each.failed)
    return (
        f"<tr><td>{time_text(each.window_start)}</td><td>{escape(each.application)}</td><td>{escape(each.role)}</td>"
        + "".join(f'<td class="n">{number}</td>' for number in numbers)
        + f'<td class="{each.verdict.value}">{each.verdict.value}</td></tr>'
    )
