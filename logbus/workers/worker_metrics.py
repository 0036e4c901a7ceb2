"""
The metrics of all workers as those of the machine: each sample has a label ``worker``.

They are sent in parts of few samples, each of which is made and read in one turn of the reactor.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from attrs import define, field

from logbus.metrics import Family, Sample

LABEL = "worker"
PART_SAMPLES = 300
"""Samples, and pauses, of a part: 1 to 5 ms, most of it in what makes the samples."""


def encode_in_parts(families: Iterable[Family], most: int = PART_SAMPLES) -> Iterator[str]:
    """
    Yield families as text, some samples of a family or of several at a time.

    A part has a line for each of its families: the name, and the rest as JSON.

    :param most: samples and pauses of a part; what has only pauses is the empty string.
    """
    part: list[str] = []
    held = 0
    for family in families:
        samples: list[Sample] = []
        for sample in family.samples:
            if sample is not None:
                samples.append(sample)
            held += 1
            if held >= most:
                if samples:
                    part.append(_line(family, samples))
                yield "\n".join(part)
                part, samples, held = [], [], 0
        part.append(_line(family, samples))
    if part:
        yield "\n".join(part)


def _line(family: Family, samples: list[Sample]) -> str:
    return f"{family.name} {json.dumps((family.help, family.type, samples))}"


@define(eq=False)
class CollectedFamilies:
    """
    The families of one worker, as their parts come.

    They are kept as text until they are asked for: ten thousands of lists are a burden to the garbage collector.
    """

    _lines: dict[str, list[str]] = field(factory=dict, init=False)

    def add(self, part: str) -> None:
        """Take the next part: what :func:`encode_in_parts` yields."""
        for line in part.split("\n"):
            name, _, rest = line.partition(" ")
            self._lines.setdefault(name, []).append(rest)

    def families(self) -> Iterator[Family]:
        """Yield them, once; the samples are made when they are asked for."""
        for name, lines in self._lines.items():
            help, type, samples = json.loads(lines[0])
            yield Family(name, help, type, _made(samples, lines[1:]))


def _made(first: list[list[Any]], lines: list[str]) -> Iterator[Sample]:
    for samples in chain((first,), (json.loads(line)[2] for line in lines)):
        for name, labels, value in samples:
            yield Sample(name, tuple(map(tuple, labels)), value)


def merge_families(workers: Mapping[int, Iterable[Family]]) -> Iterator[Family]:
    """The families of all workers, each once, with the samples of one worker after those of another."""
    found: dict[str, list[tuple[int, Family]]] = {}
    for index, families in workers.items():
        for family in families:
            found.setdefault(family.name, []).append((index, family))
    for name, same in found.items():
        first = same[0][1]
        yield Family(
            name, first.help, first.type, chain.from_iterable(_labelled(family, index) for index, family in same)
        )


def _labelled(family: Family, index: int) -> Iterator[Sample | None]:
    label = (LABEL, str(index))
    for sample in family.samples:
        yield None if sample is None else sample._replace(labels=(*sample.labels, label))
