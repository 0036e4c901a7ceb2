"""
The metrics of all workers as those of the machine: each sample has a label ``worker``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from logbus.metrics import Family, Sample

LABEL = "worker"


def encode_families(families: Iterable[Family]) -> str:
    """Families as JSON."""
    return json.dumps(
        [(each.name, each.help, each.type, [sample for sample in each.samples if sample]) for each in families]
    )


def decode_families(text: str) -> list[Family]:
    """The reverse of :func:`encode_families`."""
    return [
        Family(
            name, help, type, iter([Sample(one, tuple(map(tuple, labels)), value) for one, labels, value in samples])
        )
        for name, help, type, samples in json.loads(text)
    ]


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
