"""
Renders metrics for Prometheus: its text format 0.0.4, or OpenMetrics 1.0.0 on request.

Samples are formatted here, some at a time, since there may be 100,000 of them: prometheus_client has a scrape
take three times as long. Its registry is not used: it is one per process, and several brokers may run in one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite

from logbus.metrics import Family, Sample

SLICE_SAMPLES = 300
"""Samples formatted per reactor turn: 1 to 5 ms, most of it in what makes the samples."""

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_END = "# EOF\n"
_NOT_FINITE = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}


def wants_openmetrics(accept: str) -> bool:
    """Return whether an ``Accept`` header prefers OpenMetrics 1.0.0 (or any) to plain text (RFC 9110, 12.5.1)."""
    quality = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for part in accept.split(","):
        kind, *parameters = (piece.strip() for piece in part.lower().split(";"))
        given = dict(parameter.partition("=")[::2] for parameter in parameters)
        if kind in quality and given.get("version", "1.0.0") in ("0.0.1", "0.0.4", "1.0.0"):
            quality[kind] = max(quality[kind], _quality(given.get("q", "1")))
    return quality["application/openmetrics-text"] > 0 and (
        quality["application/openmetrics-text"] >= quality["text/plain"]
    )


def _quality(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 <= value <= 1 else 0.0


def render(families: Iterable[Family], openmetrics: bool, slice_samples: int = SLICE_SAMPLES) -> Iterator[bytes]:
    """
    Format families, about ``slice_samples`` samples a piece.
    """
    piece: list[str] = []
    held = 0
    for family in families:
        piece.append(_head(family, openmetrics))
        for sample in family.samples:
            if sample is not None:
                piece.append(_line(sample))
            held += 1
            if held >= slice_samples:
                yield "".join(piece).encode()
                piece, held = [], 0
    if openmetrics:
        piece.append(_END)
    if piece:
        yield "".join(piece).encode()


def _head(family: Family, openmetrics: bool) -> str:
    """Return HELP and TYPE, which appear once per family, before its first samples."""
    name, help = family.name, _backslashed(family.help)
    if openmetrics:
        # Its escapes of a help text are those of a label's value, and a counter's family has no _total.
        name, help = name.removesuffix("_total"), _escaped(family.help)
    return f"# HELP {name} {help}\n# TYPE {name} {family.type}\n"


def _line(sample: Sample) -> str:
    value = sample.value
    number = repr(float(value)) if isfinite(value) else _NOT_FINITE[str(float(value))]
    if not sample.labels:
        return f"{sample.name} {number}\n"
    labels = ",".join([f'{name}="{_escaped(text)}"' for name, text in sorted(sample.labels)])
    return f"{sample.name}{{{labels}}} {number}\n"


def _backslashed(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escaped(text: str) -> str:
    # Hardly a label's value has any of these.
    if "\\" in text or "\n" in text or '"' in text:
        return _backslashed(text).replace('"', '\\"')
    return text


def process_families() -> Iterator[Family]:
    """Yield memory, CPU time, descriptors and start time of this process, under their standard names (Linux)."""
    from prometheus_client.process_collector import ProcessCollector

    for metric in ProcessCollector(registry=None).collect():
        yield Family(
            metric.name + ("_total" if metric.type == "counter" else ""),
            metric.documentation,
            metric.type,
            iter([Sample(sample.name, tuple(sample.labels.items()), sample.value) for sample in metric.samples]),
        )
