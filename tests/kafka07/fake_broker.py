"""What the protocol needs of a broker, in memory."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any
from uuid import UUID

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from zope.interface import implementer

from logbus.errors import ApiError, ErrorCode
from logbus.ilogbus import Fetched, IPluginClient, IPluginFile, Leadership, Listener
from logbus.records.record import Record

TOPIC_ID = UUID(int=1)


@define(eq=False)
class FakeLog:
    """
    A partition.

    :ivar records: those that there are, by offset.
    :ivar start: the log start offset; ``end``: the next offset, also past what nobody sees.
    """

    records: dict[int, Record] = field(factory=dict)
    start: int = 0
    end: int = 0
    topic_id: UUID = TOPIC_ID

    def append(self, *values: bytes | None, timestamp: int = 0) -> int:
        """Append records; the first one's offset."""
        first = self.end
        for value in values:
            self.records[self.end] = Record(self.end, timestamp, b"key", value)
            self.end += 1
        return first

    def delete_before(self, offset: int) -> None:
        """Delete records at the front."""
        self.start = max(self.start, offset)
        self.records = {at: record for at, record in self.records.items() if at >= offset}


@implementer(IPluginFile)
@define(eq=False)
class FakeFile:
    """
    A file; what was replaced is there at once.

    :ivar synced: bytes that no crash takes away.
    """

    content: bytes = b""
    synced: int = 0

    def read(self) -> bytes:
        return self.content

    def append(self, data: bytes) -> None:
        self.content += data

    def replace(self, data: bytes) -> Deferred[None]:
        self.content, self.synced = data, len(data)
        return succeed(None)

    def crash(self, cut: int) -> None:
        """Lose up to ``cut`` bytes at the end."""
        self.content = self.content[: max(self.synced, len(self.content) - cut)]


@implementer(IPluginClient)
@define(eq=False)
class FakeClient:
    """A client with the rights that it is given; a byte over ``quota`` is a second."""

    host: str = "10.0.0.1"
    principal: str = "User:old"
    forbidden: frozenset[str] = frozenset()
    quota: int = 1 << 40

    def _require(self, operation: str, topic: str) -> None:
        if operation in self.forbidden:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{self.principal} lacks {operation} on {topic}")

    def require_read(self, topic: str) -> None:
        self._require("read", topic)

    def require_write(self, topic: str) -> None:
        self._require("write", topic)

    def require_describe(self, topic: str) -> None:
        self._require("describe", topic)

    def produced(self, size: int) -> float:
        return max(0, size - self.quota)

    def fetched(self, size: int) -> float:
        return max(0, size - self.quota)


@define(eq=False)
class FakeBroker:
    """
    A broker.

    :ivar batch: records that a fetch returns at a time, as many as a batch has.
    :ivar waiting: an append waits for it, if it is set.
    """

    broker_id: int = 0
    reactor: Clock = field(factory=Clock)
    logs: dict[tuple[str, int], FakeLog] = field(factory=dict)
    files: dict[tuple[str, int], FakeFile] = field(factory=dict)
    batch: int = 3
    leader: int = 0
    epoch: int = 0
    client_made: FakeClient = field(factory=FakeClient)
    waiting: Deferred[None] | None = None
    fetches: int = 0

    def log(self, topic: str = "t", partition: int = 0) -> FakeLog:
        """A partition, made if it is missing."""
        return self.logs.setdefault((topic, partition), FakeLog())

    def _find(self, topic: str, partition: int) -> FakeLog:
        if (topic, partition) not in self.logs:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no {topic}-{partition}")
        return self.logs[topic, partition]

    def append(
        self,
        topic: str,
        records: Sequence[tuple[bytes | None, bytes | None]],
        partition: int | None = None,
        acks: int = 1,
    ) -> Deferred[tuple[int, int]]:
        if topic == "full":
            return fail(ApiError(ErrorCode.MESSAGE_TOO_LARGE, "too large"))
        first = self.log(topic, partition or 0).append(*(value for _, value in records))
        done: Deferred[tuple[int, int]] = succeed((partition or 0, first))
        return done if self.waiting is None else self.waiting.addCallback(lambda _: (partition or 0, first))

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int = 1_048_576) -> Fetched:
        log = self._find(topic, partition)
        self.fetches += 1
        if not log.start <= offset <= log.end:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is not in {log.start} to {log.end}")
        following = min(log.end, (offset // self.batch + 1) * self.batch)
        return Fetched([log.records[at] for at in range(offset, following) if at in log.records], following)

    def log_start_offset(self, topic: str, partition: int) -> int:
        return self._find(topic, partition).start

    def leadership(self, topic: str, partition: int) -> Leadership:
        return Leadership(self.leader, self.epoch, self._find(topic, partition).topic_id)

    def topics(self) -> Mapping[str, int]:
        return {topic: 1 + max(p for t, p in self.logs if t == topic) for topic, _ in self.logs}

    def plugin_file(self, topic: str, partition: int, name: str) -> FakeFile:
        self._find(topic, partition)
        return self.files.setdefault((topic, partition), FakeFile())

    def client(self, listener: Listener, host: str, port: int, principal: str | None = None) -> FakeClient:
        self.client_made.host = host
        return self.client_made

    # -- Running coroutines

    def run(self, coroutine: Coroutine[Deferred[Any], Any, Any]) -> Any:
        """The result of a coroutine that waits for nothing but turns of the reactor."""
        found: list[Any] = []
        Deferred.fromCoroutine(coroutine).addBoth(found.append)
        self.turn(lambda: bool(found))
        if hasattr(found[0], "raiseException"):
            found[0].raiseException()
        return found[0]

    def turn(self, is_over: Callable[[], bool] = lambda: False, most: int = 20_000) -> None:
        """Let time stand still for some turns of the reactor."""
        for _ in range(most):
            if is_over() or not any(
                call.getTime() <= self.reactor.seconds() for call in self.reactor.getDelayedCalls()
            ):
                return
            self.reactor.advance(0)
