"""The options of fetching (Kafka: FetchConfig)."""

from __future__ import annotations

from attrs import field, frozen

from logbus.client.consumer.partition_position import Isolation, Reset
from logbus.client.validators import checked, choice, integer, seconds, text

RESETS = ("earliest", "latest", "none")
ISOLATIONS = ("read_uncommitted", "read_committed")


@frozen(kw_only=True)
class FetchOptions:
    """
    Options of a :class:`~logbus.client.consumer.fetcher.Fetcher`.

    :ivar reset: where to continue if an offset is out of range; ``none`` raises an error.
    :ivar max_wait: seconds a broker delays a fetch that has fewer than ``min_bytes``.
    :ivar max_bytes: of one response.
    :ivar partition_max_bytes: of one partition in it.
    :ivar queue_bytes: the size of the buffer, over all partitions, in bytes on the wire and including responses to
        come. A larger batch is fetched all the same (KIP-74).
    :ivar isolation: ``read_committed`` delivers records of transactions only once they are committed.
    :ivar rack: the client's rack: brokers may name a nearby replica to fetch from (KIP-392).
    :ivar encoded: deliver batches as they are in the log, instead of records.
    :ivar patience: seconds for which a topic or partition may be missing before that is an error.
    """

    reset: Reset = field(default="latest", validator=checked(choice, choices=RESETS))
    max_wait: float = field(default=0.5, validator=checked(seconds, is_sent=True))
    min_bytes: int = field(default=1, validator=checked(integer, least=0))
    max_bytes: int = field(default=16 * 1024 * 1024, validator=checked(integer, least=1))
    partition_max_bytes: int = field(default=4 * 1024 * 1024, validator=checked(integer, least=1))
    queue_bytes: int = field(default=32 * 1024 * 1024, validator=checked(integer, least=1, most=2**63))
    isolation: Isolation = field(default="read_uncommitted", validator=checked(choice, choices=ISOLATIONS))
    rack: str | None = field(default=None, validator=checked(text, optional=True))
    encoded: bool = False
    patience: float = field(default=0.5, validator=checked(seconds))

    @property
    def committed(self) -> bool:
        """Whether only committed records are delivered."""
        return self.isolation == "read_committed"
