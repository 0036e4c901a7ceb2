"""Metadata updates encoded and decoded in one go."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from logbus.cluster import metadata_update_codec
from logbus.cluster.metadata_update import MetadataUpdate
from logbus.wire.messages.inter_broker import MetadataUpdateRequest

T = TypeVar("T")


def update_request(update: MetadataUpdate) -> MetadataUpdateRequest:
    return _finished(metadata_update_codec.update_request(update))


def decode_update(request: MetadataUpdateRequest) -> MetadataUpdate:
    return _finished(metadata_update_codec.decode_update(request))


def _finished(steps: Generator[None, None, T]) -> T:
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: T = done.value
        return result
