"""A policy of deletion for logbus: by size, but nothing that consumers were promised to find."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from twisted.plugin import IPlugin
from zope.interface import implementer

from logbus.storage.istorage import IDeletePolicy, LogView, SegmentView

DELETE = "delete"


@implementer(IPlugin, IDeletePolicy)
@frozen
class SizeWithPromise:
    """
    A log may grow to ``retention.bytes``; what is beyond goes, but only once it is older than ``retention.ms``, for
    which consumers may rely on it.  Less than ``retention.bytes`` stays however old it is.
    """

    name: str = "size-with-promise"

    def expired(self, log: LogView, now_ms: int) -> Sequence[SegmentView]:
        """Return the oldest segments that are neither needed for the size nor promised to anybody."""
        config = log.config
        if DELETE not in config.cleanup_policy or config.retention_bytes < 0:
            return ()
        left = sum(segment.size for segment in log.segments)
        count = 0
        for segment in log.segments:
            left -= segment.size
            youngest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms()
            is_promised = config.retention_ms < 0 or now_ms - youngest <= config.retention_ms
            if left < config.retention_bytes or is_promised:
                break
            count += 1
        return log.segments[:count]
