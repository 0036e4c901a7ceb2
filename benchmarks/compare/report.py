"""
Results as tables and as JSON.

Every ratio is turned so that 1.0 means equal and more means that logbus does better: rates logbus ÷ Kafka; latency,
cost, memory and start time Kafka ÷ logbus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from benchmarks.compare.cells import Cell
from benchmarks.compare.machine_limits import Limit
from benchmarks.compare.rounds import Figures
from benchmarks.compare.startup import Presence

OURS, PEER = "logbus", "kafka"


@attrs.frozen
class CellResult:
    """
    :ivar figures: By system; empty when it failed.
    :ivar problem: Why there are no figures, or "".
    """

    cell: Cell
    figures: Mapping[str, Figures]
    problem: str = ""


@attrs.frozen
class Section:
    """One mode's cells."""

    title: str
    results: Sequence[CellResult]


@attrs.frozen
class Report:
    """
    Everything one run found.

    :ivar about: Versions, machine, settings, as lines of text by name.
    """

    about: Mapping[str, str]
    limits: Sequence[Limit]
    presence: Mapping[str, Presence]
    sections: Sequence[Section]

    def markdown(self) -> str:
        """The tables, for people."""
        lines = ["# logbus and Apache Kafka side by side", ""]
        lines += [f"- {name}: {text}" for name, text in self.about.items()]
        lines += ["", "## The machine, in this run", "", "| limit | median | low – high |", "|---|---|---|"]
        lines += [
            f"| {x.name} | {_short(x.median)} {x.unit} | {_short(x.low)} – {_short(x.high)} |" for x in self.limits
        ]
        if self.presence:
            lines += ["", "## Being there", "", *_presence(self.presence)]
        for section in self.sections:
            lines += ["", f"## {section.title}", "", *_ratios(section), "", *_figures(section)]
        return "\n".join(lines) + "\n"

    def as_json(self) -> dict[str, Any]:
        """All of it, rounds included, for programs."""
        return {
            "about": dict(self.about),
            "limits": [attrs.asdict(limit) for limit in self.limits],
            "presence": {name: attrs.asdict(p) for name, p in self.presence.items()},
            "modes": {
                section.title: {
                    r.cell.name: {
                        "cell": attrs.asdict(r.cell),
                        "problem": r.problem,
                        "systems": {name: f.as_json() for name, f in r.figures.items()},
                        "ratios": ratios(r),
                    }
                    for r in section.results
                }
                for section in self.sections
            },
        }


def _throughput(cell: Cell) -> Callable[[Figures], float]:
    return (lambda f: f.mb_per_s) if cell.bulk else (lambda f: f.requests_per_s)


def ratios(result: CellResult) -> dict[str, float]:
    """By measure, for a cell that both systems ran; empty otherwise."""
    if OURS not in result.figures or PEER not in result.figures:
        return {}
    ours, peer = result.figures[OURS], result.figures[PEER]
    rate = _throughput(result.cell)
    found = {
        "p50": peer.p50_us / ours.p50_us,
        "p99": peer.p99_us / ours.p99_us,
        "p999": peer.p999_us / ours.p999_us,
        "cpu_per_request": _over(peer.cpu_us_per_request, ours.cpu_us_per_request),
        "cpu_per_gb": _over(peer.cpu_s_per_gb, ours.cpu_s_per_gb),
        "memory": peer.resident_mb / ours.resident_mb,
    }
    # A load that sends one record at a time, or at a fixed pause, has no throughput of its own: latency says it.
    if result.cell.kind not in ("tail", "rd-tail"):
        found = {"throughput": rate(ours) / rate(peer)} | found
    return found


def _over(a: float, b: float) -> float:
    return a / b if b else float("inf")


def _ratios(section: Section) -> list[str]:
    names = ["throughput", "p50", "p99", "p999", "cpu_per_request", "cpu_per_gb", "memory"]
    rows = [(r, ratios(r)) for r in section.results]
    if not any(found for _, found in rows):
        return []
    lines = ["Ratios; more than 1 is in logbus' favour.", ""]
    lines += ["| cell | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    below = 0
    for result, found in rows:
        if not found:
            continue
        below += any(v < 1 for n, v in found.items() if n in ("throughput", "p50", "p99", "p999"))
        values = [
            f"**{found[n]:.2f}**" if found.get(n, 1) < 1 else f"{found[n]:.2f}" if n in found else "" for n in names
        ]
        lines.append(f"| {result.cell.name} | " + " | ".join(values) + " |")
    total = sum(bool(found) for _, found in rows)
    return [
        *lines,
        "",
        f"{total - below} of {total} cells are at 1.0 or more in throughput and every latency percentile.",
    ]


def _figures(section: Section) -> list[str]:
    lines = [
        "| cell | system | requests/s | MB/s | p50 µs | p99 µs | p999 µs | CPU µs/request | CPU s/GB | RSS MB "
        "| syncs/request |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in section.results:
        for name, f in r.figures.items():
            values = [f.requests_per_s, f.mb_per_s, f.p50_us, f.p99_us, f.p999_us]
            values += [f.cpu_us_per_request, f.cpu_s_per_gb, f.resident_mb, f.syncs_per_request]
            lines.append(f"| {r.cell.name} | {name} | " + " | ".join(map(_short, values)) + " |")
        if r.problem:
            lines.append(f"| {r.cell.name} | failed: {' '.join(r.problem.split())[:300]} | | | | | | | | | |")
    return lines


def _presence(found: Mapping[str, Presence]) -> list[str]:
    lines = ["| system | start s | resident MB | idle CPU % | stop s |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {p.start_s:.2f} | {p.resident_mb:.0f} | {p.idle_cpu_percent:.1f} | {p.stop_s:.2f} |"
        for name, p in found.items()
    ]
    if OURS in found and PEER in found:
        ours, peer = found[OURS], found[PEER]
        values = [_over(a, b) for a, b in zip(attrs.astuple(peer), attrs.astuple(ours), strict=True)]
        lines.append("| ratio | " + " | ".join(f"{v:.2f}" for v in values) + " |")
    return lines


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
