"""
Renders metrics for Prometheus: its text format 0.0.4, or OpenMetrics 1.0.0 on request.

prometheus_client formats a few samples at a time, since 100,000 would take seconds. Its registry is not used: it is one
per process, and several brokers may run in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from attrs import frozen

from logbus.metrics import Family, Sample

SLICE_SAMPLES = 200
"""Samples formatted per reactor turn: about 5 ms."""

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_END = b"# EOF\n"


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
    encode = _encoder(openmetrics)
    piece: list[bytes] = []
    held = 0
    for family in families:
        samples, first = family.samples, True
        while True:
            part = list(islice(samples, slice_samples - held))
            if not part and not first:
                break
            piece.append(_formatted(family, part, encode, first, openmetrics))
            first = False
            held += len(part)
            if held >= slice_samples:
                yield b"".join(piece)
                piece, held = [], 0
    if openmetrics:
        piece.append(_END)
    if piece:
        yield b"".join(piece)


def _formatted(
    family: Family, samples: list[Sample | None], encode: Callable[[Any], bytes], first: bool, openmetrics: bool
) -> bytes:
    from prometheus_client.metrics_core import Metric

    metric = Metric(family.name.removesuffix("_total"), family.help, family.type)
    for sample in filter(None, samples):
        metric.add_sample(sample.name, dict(sample.labels), sample.value)
    text = encode(_One(metric))
    if openmetrics:
        text = text.removesuffix(_END)
    if not first:
        # HELP and TYPE appear once per family, before its first samples.
        text = text.split(b"\n", 2)[2]
    return text


@frozen
class _One:
    """A registry of one family, for prometheus_client."""

    metric: Any

    def collect(self) -> list[Any]:
        return [self.metric]


def _encoder(openmetrics: bool) -> Callable[[Any], bytes]:
    # Imported with the first scrape, since it imports an HTTP server and client.
    if openmetrics:
        from prometheus_client.openmetrics.exposition import generate_latest as encode
    else:
        from prometheus_client.exposition import generate_latest as encode  # type: ignore[assignment]
    return encode


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
