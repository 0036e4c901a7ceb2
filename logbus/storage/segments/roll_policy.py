"""Decides when a log rolls to a new segment (Kafka: LogSegment.shouldRoll). Pure."""

from __future__ import annotations

import random
from typing import Protocol

from attrs import define, field

from logbus.config.topic_config import TopicConfig
from logbus.storage.segments.indexes import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE


class HasCount(Protocol):
    """An index, as far as its size is concerned."""

    @property
    def count(self) -> int:
        """Number of entries."""


class ActiveSegment(Protocol):
    """The properties of the active segment that the decision depends on."""

    @property
    def size(self) -> int:
        """Its bytes; more than zero."""

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of its first batch, ms since 1970; −1 if it is not known."""

    @property
    def created_ms(self) -> int:
        """Time of creation, ms since 1970."""

    @property
    def offsets(self) -> HasCount:
        """Its offset index."""

    @property
    def times(self) -> HasCount:
        """Its time index."""


@define(eq=False)
class RollPolicy:
    """
    The roll rules of one log. Jitter (``segment.jitter.ms``) spreads the rolls of logs that were created together.

    :ivar _age_ms: age at which the active segment is rolled, drawn for ``_config``; None: not drawn yet.
    """

    _jitter: random.Random
    _config: TopicConfig | None = field(default=None, init=False)
    _age_ms: int = field(default=-1, init=False)

    def is_due(
        self, segment: ActiveSegment, size: int, max_timestamp: int, config: TopicConfig, now_ms: int, batches: int = 1
    ) -> bool:
        """
        Whether an append needs a new segment: the active one would become too large, or is too old.

        :param size: bytes to be appended.
        :param max_timestamp: their largest timestamp, ms since 1970; negative without one.
        :param batches: their number of batches. If no roll is due for all of them, none is due for any.
        """
        if config is not self._config:
            self._config, self._age_ms = config, self._draw_age(config)
        if segment.first_timestamp >= 0 <= max_timestamp:
            age = max_timestamp - segment.first_timestamp
        else:
            age = now_ms - segment.created_ms
        if segment.size + size > config.segment_bytes or age > self._age_ms:
            return True
        entries = segment.offsets.count + batches
        # There are at most as many entries for times, and these are larger.
        return entries * TIME_ENTRY_SIZE > config.segment_index_bytes and (
            entries * OFFSET_ENTRY_SIZE > config.segment_index_bytes
            or (segment.times.count + batches) * TIME_ENTRY_SIZE > config.segment_index_bytes
        )

    def rolled(self) -> None:
        """A segment was begun: it gets an age of its own."""
        self._config = None

    def _draw_age(self, config: TopicConfig) -> int:
        longest = config.segment_ms
        if config.compacted and 0 < config.max_compaction_lag_ms < longest:
            # What is in the active segment is not compacted (KIP-354).
            longest = config.max_compaction_lag_ms
        if not config.segment_jitter_ms:
            return longest
        return longest - self._jitter.randrange(min(config.segment_jitter_ms, longest) + 1)
