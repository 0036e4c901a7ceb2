"""
The cells that are measured: named combinations of a load and a kind of topic.

A name reads ``kind.size.batch[.codec].acks|readers.connections[.partitions]``.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

Kind = Literal["produce", "beside-bulk", "fetch", "tail", "rd-produce", "rd-latency", "rd-consume", "rd-tail"]

#: Uncompressed record bytes of a full batch: what fits a broker's default message.max.bytes.
FULL: Final = 1_000_000
#: The Java producer's default batch.size.
JAVA: Final = 16_384


@attrs.frozen
class Cell:
    """
    :ivar kind: ``produce``, ``fetch`` and ``tail`` replay raw requests; ``beside-bulk`` is a small producer beside one
        that sends full batches as fast as it can; ``rd-*`` go through librdkafka.
    :ivar size: Bytes of a record's value.
    :ivar batch: Record bytes of a batch before compression; 0: one record.
    :ivar acks: 1, or -1 for all.
    :ivar depth: Requests in flight on each connection.
    :ivar spread: One request holds a batch for every partition, as the Java producer sends; else for one partition.
    :ivar fetch_bytes: The most of one partition a Fetch takes.
    """

    name: str
    kind: Kind
    size: int
    batch: int = 0
    codec: str = "none"
    acks: int = 1
    connections: int = 1
    depth: int = 1
    partitions: int = 1
    spread: bool = False
    fetch_bytes: int = 1 << 20

    @property
    def records(self) -> int:
        """Records in a batch; each takes up to 10 bytes beside its value."""
        return max(1, self.batch // (self.size + 10))

    @property
    def bulk(self) -> bool:
        """Whether bytes, rather than requests, are what it moves."""
        return self.batch > 0 and self.kind != "beside-bulk"

    @property
    def writes_much(self) -> bool:
        """Whether a round may write as much as it is allowed to."""
        large = self.batch + self.size > 8 * KB
        return self.kind == "beside-bulk" or (self.kind in ("produce", "rd-produce") and large)


KB: Final = 1000

CELLS: Final[tuple[Cell, ...]] = (
    # One record a request: what a request costs.
    Cell("produce.100B.one.acks1.c1", "produce", 100),
    Cell("produce.100B.one.acks1.c1.deep16", "produce", 100, depth=16),
    Cell("produce.100B.one.acks1.c16", "produce", 100, connections=16),
    Cell("produce.100B.one.acks1.c100", "produce", 100, connections=100),
    Cell("produce.100B.one.acks1.c16.p100", "produce", 100, connections=16, partitions=100),
    Cell("produce.100B.one.all.c1", "produce", 100, acks=-1),
    Cell("produce.100B.one.all.c16", "produce", 100, acks=-1, connections=16),
    Cell("produce.1KB.one.acks1.c1", "produce", KB),
    Cell("produce.1KB.one.acks1.c16", "produce", KB, connections=16),
    Cell("produce.1KB.one.all.c100", "produce", KB, acks=-1, connections=100),
    Cell("produce.1KB.one.all.c100.p100", "produce", KB, acks=-1, connections=100, partitions=100),
    Cell("produce.100KB.one.acks1.c1", "produce", 100 * KB),
    Cell("produce.100KB.one.all.c16", "produce", 100 * KB, acks=-1, connections=16),
    # Batches: what a byte costs.
    Cell("produce.100B.full.acks1.c1", "produce", 100, FULL),
    Cell("produce.100B.full.lz4.acks1.c16", "produce", 100, FULL, "lz4", connections=16),
    Cell("produce.100B.full.zstd.acks1.c16", "produce", 100, FULL, "zstd", connections=16),
    Cell("produce.1KB.java.acks1.c16", "produce", KB, JAVA, connections=16),
    Cell("produce.1KB.full.acks1.c1", "produce", KB, FULL),
    Cell("produce.1KB.full.acks1.c16", "produce", KB, FULL, connections=16),
    Cell("produce.1KB.full.all.c16", "produce", KB, FULL, acks=-1, connections=16),
    Cell("produce.1KB.full.acks1.c100", "produce", KB, FULL, connections=100),
    Cell("produce.1KB.full.lz4.acks1.c1", "produce", KB, FULL, "lz4"),
    Cell("produce.1KB.full.zstd.all.c1", "produce", KB, FULL, "zstd", acks=-1),
    Cell("produce.1KB.full.acks1.c1.p100", "produce", KB, FULL, partitions=100),
    Cell("produce.1KB.spread.acks1.c1.p100", "produce", KB, 10 * KB, partitions=100, spread=True),
    Cell("produce.100KB.full.acks1.c1", "produce", 100 * KB, FULL),
    Cell("beside-bulk.100B.one.acks1.c1", "beside-bulk", 100),
    # Catching up from the page cache.
    Cell("fetch.100B.one.c1", "fetch", 100),
    Cell("fetch.100B.full.c1", "fetch", 100, FULL),
    Cell("fetch.1KB.java.4KB-reads.c16", "fetch", KB, 4 * KB, connections=16, fetch_bytes=4096),
    Cell("fetch.1KB.java.c1", "fetch", KB, JAVA),
    Cell("fetch.1KB.full.c1", "fetch", KB, FULL),
    Cell("fetch.1KB.full.c16", "fetch", KB, FULL, connections=16),
    Cell("fetch.1KB.full.c100", "fetch", KB, FULL, connections=100),
    Cell("fetch.1KB.full.c1.p100", "fetch", KB, FULL, partitions=100),
    Cell("fetch.1KB.full.lz4.c1", "fetch", KB, FULL, "lz4"),
    Cell("fetch.1KB.full.zstd.c16", "fetch", KB, FULL, "zstd", connections=16),
    Cell("fetch.100KB.full.c1", "fetch", 100 * KB, FULL),
    # At the end of the log, in a long poll.
    Cell("tail.100B.c1", "tail", 100),
    Cell("tail.1KB.c16", "tail", KB, connections=16),
    Cell("tail.1KB.c100", "tail", KB, connections=100),
    Cell("tail.1KB.c16.p100", "tail", KB, connections=16, partitions=100),
    # Through a real client.
    Cell("rd-produce.100B.acks1", "rd-produce", 100, FULL),
    Cell("rd-produce.1KB.acks1", "rd-produce", KB, FULL),
    Cell("rd-produce.1KB.lz4.all", "rd-produce", KB, FULL, "lz4", acks=-1),
    Cell("rd-produce.1KB.zstd.acks1.p100", "rd-produce", KB, FULL, "zstd", partitions=100),
    Cell("rd-latency.100B.acks1", "rd-latency", 100),
    Cell("rd-latency.1KB.all", "rd-latency", KB, acks=-1),
    Cell("rd-consume.100B", "rd-consume", 100, FULL),
    Cell("rd-consume.1KB", "rd-consume", KB, FULL),
    Cell("rd-tail.100B.acks1", "rd-tail", 100),
)

#: What a broker does before its first figure is taken, so that a virtual machine has compiled the usual paths.
WARMING: Final = (
    Cell("warm.produce.one", "produce", 100, connections=16),
    Cell("warm.produce.java", "produce", KB, JAVA, acks=-1, connections=4),
    Cell("warm.fetch", "fetch", KB, JAVA, connections=4),
    Cell("warm.tail", "tail", 100, connections=4),
)
