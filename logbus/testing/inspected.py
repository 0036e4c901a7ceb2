"""A test's view of its broker or cluster: records, groups, and waits for both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from logbus.client import validators as check
from logbus.testing.inspector import Inspector
from logbus.testing.reactor_thread import ReactorThread, in_event_loop

if TYPE_CHECKING:
    from logbus.client import Cluster, ConsumerRecord, GroupDescription
    from logbus.client.consumer.partition_position import Isolation
    from logbus.model import TopicPartition
    from logbus.testing.admin import Admin
    from logbus.testing.record_comparison import Expected

T = TypeVar("T")

WAIT_SECONDS = 30.0
"""A wait takes so long at most, unless it says otherwise."""
MOST_LINES = 100
"""Of a difference."""
ELSEWHERE = "await asyncio.to_thread(...) lets it run"
GRACE = 10.0
"""Seconds beyond that for the requests which then find out what there is instead."""


class Inspected(ABC):
    """
    Base of brokers and clusters.

    Methods that wait return as soon as their condition holds; with ``timeout`` they fail after so many seconds, and say
    what there was instead.  They block the thread that calls them: a test in a reactor or an event loop calls them in
    another one (``deferToThread``, ``asyncio.to_thread``), if its own code is to go on meanwhile.
    """

    _inspecting: Inspector | None = None

    @abstractmethod
    def _inspector_at(self) -> tuple[str, dict[str, str], ReactorThread | None]:
        """Where the inspecting client connects, how it logs in, and the thread that it runs in, if there is one."""

    @property
    def admin(self) -> Admin:
        """Creates topics, describes groups and the like, and waits for it."""
        from logbus.testing.admin import Admin

        return Admin(self._inspector, WAIT_SECONDS)

    def read(
        self,
        topic: str,
        *,
        partition: int | None = None,
        isolation: Isolation = "read_uncommitted",
        last: int | None = None,
        timeout: float = WAIT_SECONDS,
    ) -> list[ConsumerRecord]:
        """
        The records of a topic that are readable now: by partition, then by offset.

        :param partition: only of this one.
        :param isolation: ``read_committed`` leaves out open and aborted transactions.
        :param last: only those of so many last offsets of each partition.
        """
        __tracebackhide__ = True
        check.text("topic", topic)
        from logbus.testing.topic_reader import read_topic

        return self._ask(lambda cluster: read_topic(cluster, topic, isolation, partition, last), timeout)

    def read_topics(
        self, last: int, most: int, *, timeout: float = WAIT_SECONDS
    ) -> tuple[dict[str, tuple[int, list[ConsumerRecord]]], int]:
        """
        The number of offsets and the last records of each topic but internal ones; and how many topics are left out.

        :param last: those of so many last offsets of each partition.
        :param most: so many topics.
        """
        __tracebackhide__ = True
        from logbus.testing.topic_reader import read_topics

        return self._ask(lambda cluster: read_topics(cluster, last, most), timeout)

    def wait_readable(
        self,
        topic: str,
        count: int,
        *,
        isolation: Isolation = "read_uncommitted",
        timeout: float = WAIT_SECONDS,
    ) -> list[ConsumerRecord]:
        """
        The records of a topic, as soon as there are ``count`` or more; the topic may not exist yet.

        :raise WaitTimedOut: there were fewer.
        """
        __tracebackhide__ = True
        check.text("topic", topic)
        check.integer("count", count, 0)
        from logbus.testing.topic_reader import wait_readable

        return self._ask(lambda cluster: wait_readable(cluster, topic, count, isolation, timeout), timeout, GRACE)

    def assert_records(
        self,
        topic: str,
        expected: Iterable[Expected],
        *,
        in_order: bool = True,
        isolation: Isolation = "read_uncommitted",
        timeout: float = WAIT_SECONDS,
    ) -> list[ConsumerRecord]:
        """
        Wait until a topic has as many records as are expected, and compare them; they are returned.

        :param expected: of each record its value, a pair of key and value, or a dict of ``key``, ``value``,
            ``headers``, ``timestamp``, ``partition`` and ``offset``, of which any may be left out; texts are UTF-8.
        :param in_order: by partition and offset; False: the order does not matter.
        :raise AssertionError: shows the difference.
        """
        __tracebackhide__ = True
        from logbus.testing.record_comparison import as_fields, differences
        from logbus.testing.waiting import WaitTimedOut

        wanted = list(expected)
        for each in wanted:
            as_fields(each)
        late = ""
        try:
            self.wait_readable(topic, len(wanted), isolation=isolation, timeout=timeout)
        except WaitTimedOut as e:
            late = f" within {timeout:g} s"
            if "there is no topic" in str(e):
                raise AssertionError(str(e)) from None
        records = self.read(topic, isolation=isolation)
        lines = differences(records, wanted, in_order=in_order)
        if lines:
            counts = f"{len(records)} record{'s' * (len(records) != 1)} (+), {len(wanted)} expected (-)"
            more = [f"... and {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
            raise AssertionError("\n".join([f"{topic}: {counts}{late}", *lines[:MOST_LINES], *more]))
        return records

    def wait_stable(self, group: str, *, members: int | None = None, timeout: float = WAIT_SECONDS) -> GroupDescription:
        """
        A group, as soon as it is stable.

        :param members: how many it has then; None: any number from 1 on.
        :raise WaitTimedOut: it was not.
        """
        __tracebackhide__ = True
        check.text("group", group)
        if members is not None:
            check.integer("members", members, 1)
        from logbus.testing.group_waits import wait_stable

        return self._ask(lambda cluster: wait_stable(cluster, group, members, timeout), timeout, GRACE)

    def wait_no_lag(self, group: str, *topics: str, timeout: float = WAIT_SECONDS) -> dict[TopicPartition, int]:
        """
        The committed offsets of a group, as soon as it has committed all records.

        :param topics: of these topics; none: of those that it has committed offsets of, or whose partitions it has.
        :raise WaitTimedOut: it had not.
        """
        __tracebackhide__ = True
        check.text("group", group)
        from logbus.testing.group_waits import wait_no_lag

        return self._ask(lambda cluster: wait_no_lag(cluster, group, topics, timeout), timeout, GRACE)

    def hang_transaction(
        self,
        topic: str,
        partition: int = 0,
        *,
        transactional_id: str | None = None,
        transaction_timeout: timedelta | float = 60.0,
        value: bytes = b"hanging",
        timeout: float = WAIT_SECONDS,
    ) -> str:
        """
        Leave a transaction open, with a record in a partition, whose producer is gone: consumers of committed records
        wait until the coordinator aborts it.

        :param transaction_timeout: when that is, in seconds or as a timedelta; ``advance`` has it happen at once.
        :returns: the transactional id, for ``fence_producer``, which aborts it, too.
        """
        __tracebackhide__ = True
        from logbus.testing.hanging_transaction import hang_transaction

        name = transactional_id or f"hanging-{uuid4().hex[:8]}"
        seconds = (
            transaction_timeout.total_seconds() if isinstance(transaction_timeout, timedelta) else transaction_timeout
        )
        self._ask(lambda cluster: hang_transaction(cluster, topic, partition, name, seconds, value), timeout)
        return name

    def _ask(self, ask: Callable[[Cluster], Awaitable[T]], timeout: float, grace: float = 0.0) -> T:
        """The result of what the kit's client does, within so many seconds and a grace."""
        __tracebackhide__ = True
        check.seconds("timeout", timeout)
        from logbus.testing.waiting import WaitTimedOut

        try:
            return self._inspector().run(ask, timeout + grace)
        except (WaitTimedOut, TimeoutError) as e:
            if in_event_loop():
                raise WaitTimedOut(f"{e}; the event loop of this thread stood still meanwhile: {ELSEWHERE}") from None
            raise

    def _inspector(self) -> Inspector:
        if self._inspecting is not None and not self._inspecting.usable:
            self._close_inspector()
        if self._inspecting is None:
            self._inspecting = Inspector(*self._inspector_at())
        return self._inspecting

    def _close_inspector(self) -> None:
        inspecting, self._inspecting = self._inspecting, None
        if inspecting is not None:
            inspecting.close()
