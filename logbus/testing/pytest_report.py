"""
The part about brokers in the report of a failed test: their log and requests since the test began, and what their
topics hold.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from traceback import format_stack
from typing import TYPE_CHECKING, Any

from logbus.testing.record_comparison import shown_content

if TYPE_CHECKING:
    from logbus.client.consumer.consumer_record import ConsumerRecord
    from logbus.testing.requests.recorded import RecordedRequest

LOG_LINES = 60
REQUESTS = 30
"""Of each broker."""
TOPICS = 10
RECORDS = 20
"""Of each topic."""
STACK_LINES = 6
READ_SECONDS = 5.0
"""A broker that does not answer, as it may be why the test has failed, costs no more."""


class Witness:
    """
    Tells of a broker or a cluster when a test has failed.

    :param name: the fixture's.
    :param server: a broker or a cluster.
    :param node: whose fixture it is: a test, a module or the session.
    """

    def __init__(self, name: str, server: Any, node: Any) -> None:
        self.name = name
        self.server = server
        self.node = node
        # At first the test's start is that of the broker.
        self._marks: list[int] = []
        self._numbers: list[int] = []

    def begin(self) -> None:
        """Another test begins."""
        self._marks = [broker.log_mark for broker in self._brokers()]
        self._numbers = [_last_number(broker) for broker in self._brokers()]

    def sections(self) -> Iterator[tuple[str, str]]:
        """Titles and texts, without those that are empty."""
        for title, text in (("log", self._log()), ("requests", self._requests()), ("topics", self._topics())):
            if text:
                yield f"{self.name}: {title}", text

    def _brokers(self) -> list[Any]:
        return list(getattr(self.server, "brokers", [self.server]))

    def _log(self) -> str:
        lines: dict[str, None] = {}
        brokers = self._brokers()
        for broker, mark in zip(brokers, self._marks or [0] * len(brokers), strict=True):
            # The brokers of a cluster in one process have one log.
            lines.update(dict.fromkeys(broker.log_lines(mark)))
        shown = [*lines][-LOG_LINES:]
        return "\n".join([f"... {len(lines) - LOG_LINES} lines before these"] * (len(lines) > LOG_LINES) + shown)

    def _requests(self) -> str:
        brokers = self._brokers()
        lines: list[str] = []
        for broker, number in zip(brokers, self._numbers or [0] * len(brokers), strict=True):
            requests = [request for request in _kept(broker) if request.number > number]
            if len(brokers) > 1 and requests:
                lines.append(f"broker {broker.id}:")
            if len(requests) > REQUESTS:
                lines.append(f"... {len(requests) - REQUESTS} before these")
            lines += map(str, requests[-REQUESTS:])
        return "\n".join(lines)

    def _topics(self) -> str:
        running = getattr(self.server, "running", False)
        if not running:
            return "(it does not run)"
        try:
            topics, left_out = self.server.read_topics(RECORDS, TOPICS, timeout=READ_SECONDS)
        except TimeoutError as e:
            return f"(not readable: {e}; the brokers' threads are in:)\n{_stacks()}"
        except Exception as e:
            return f"(not readable: {e})"
        lines = [line for name, records in topics.items() for line in _topic(name, records)]
        if left_out:
            lines.append(f"... and {left_out} more topics")
        return "\n".join(lines)


def _last_number(broker: Any) -> int:
    """Of the last request that a broker got."""
    last = _kept(broker)[-1:]
    return last[0].number if last else 0


def _kept(broker: Any) -> Sequence[RecordedRequest]:
    """The requests that a broker got, even if it hangs."""
    return broker.requests.kept() if broker.controlled else ()


def _stacks() -> str:
    """Where the threads of brokers in this process are."""
    frames = sys._current_frames()
    return "".join(
        line
        for thread in threading.enumerate()
        if thread.name.startswith("logbus-test") and thread.ident in frames
        for line in [f"{thread.name}:\n", *format_stack(frames[thread.ident], STACK_LINES)]
    )


def _topic(name: str, counted: tuple[int, list[ConsumerRecord]]) -> Iterator[str]:
    offsets, records = counted
    if not offsets:
        yield f"{name}: empty"
        return
    shown = sorted(records, key=lambda record: record.timestamp)[-RECORDS:]
    yield f"{name}: {offsets} offsets" + (f", the last {len(shown)} records" if len(shown) < offsets else "")
    for record in sorted(shown, key=lambda record: (record.partition, record.offset)):
        yield f"  {record.partition}:{record.offset} {shown_content(record)}"
