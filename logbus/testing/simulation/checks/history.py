"""
The history of clients' sends and polls, and its check for anomalies. Pure.

The anomalies have the names of Jepsen's workload for Kafka. Values are integers, each sent once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any

from attrs import define, evolve, field, frozen

OK = "ok"
FAIL = "fail"
INFO = "info"


@frozen
class Send:
    """
    A batch that a producer sent.

    :ivar outcome: ``ok``: acknowledged; ``fail``: certainly not written; ``info``: unknown.
    :ivar offset: of the first value, as acknowledged; None if unknown.
    :ivar begin: in seconds; ``end``: when the outcome was known.
    """

    producer: str
    partition: int
    values: tuple[int, ...]
    outcome: str
    offset: int | None
    begin: float
    end: float


@frozen
class Poll:
    """
    The records of one answer to a consumer.

    :ivar position: the offset of the fetch.
    :ivar records: offsets and values.
    """

    consumer: str
    partition: int
    position: int
    records: tuple[tuple[int, int], ...]
    time: float


@frozen
class Anomaly:
    """
    A violation of a promise.

    :ivar partition: of it, and ``time``: when it was reported, in seconds, if known.
    """

    kind: str
    what: str
    partition: int = -1
    time: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


@define(eq=False)
class History:
    """
    All sends and polls, in the order in which they ended.

    :ivar phantoms: values that were read and then lost, where that is allowed; set by :meth:`without_losses`.
    """

    sends: list[Send] = field(factory=list)
    polls: list[Poll] = field(factory=list)
    phantoms: set[int] = field(factory=set)

    def without_losses(
        self, readers: frozenset[str], losses: Mapping[int, Sequence[float]], *, acknowledged: bool
    ) -> History:
        """
        The history without the values that were lost, where that is allowed.

        A value that ``readers``, which read everything in the end, did not see is lost. A consumer that saw lost values
        need not have seen the ones that took their offsets: it had passed them.

        :param losses: by partition: the times up to which sent values may be lost; see :class:`.DurabilityOracle`.
        :param acknowledged: whether acknowledged values may be lost, too.
        """
        last = {partition: max(times) for partition, times in losses.items() if times}
        left = {(poll.partition, *record) for poll in self.polls if poll.consumer in readers for record in poll.records}
        values = {value for _, _, value in left}
        begun = {value: send.begin for send in self.sends for value in send.values}
        firm = set(left)
        sends = []
        for send in self.sends:
            at = last.get(send.partition)
            if acknowledged and send.outcome == OK and at is not None and send.begin <= at:
                if not values.issuperset(send.values):
                    send = evolve(send, outcome=INFO, offset=None)
            elif send.outcome == OK and send.offset is not None:
                firm |= {(send.partition, send.offset + index, value) for index, value in enumerate(send.values)}
            sends.append(send)
        phantoms = {
            (partition, offset, value)
            for partition, offset, value in {(poll.partition, *each) for poll in self.polls for each in poll.records}
            if (partition, offset, value) not in firm and begun.get(value, inf) <= last.get(partition, -1.0)
        }
        misled = {
            (poll.consumer, poll.partition)
            for poll in self.polls
            if any((poll.partition, *record) in phantoms for record in poll.records)
        }
        kept = [poll for poll in self.polls if (poll.consumer, poll.partition) not in misled]
        return History(sends, kept, {value for _, _, value in phantoms})

    def check(self, *, finished: bool = True, readers: frozenset[str] = frozenset()) -> list[Anomaly]:
        """
        All anomalies.

        :param finished: whether consumers went on, after all faults, until nothing more came: only then is a value that
            was never polled missing.
        :param readers: consumers that read everything in the end, and must have seen all values.
        """
        view = _View(self.sends, self.polls, readers)
        found = [*view.inconsistent_offsets(), *view.duplicates(), *view.aborted_reads()]
        found += view.order_of_polls()
        found += view.order_of_sends()
        if finished:
            found += view.missing()
        return found

    @property
    def acknowledged(self) -> int:
        """Values that were acknowledged."""
        return sum(len(send.values) for send in self.sends if send.outcome == OK)

    def worst_lag(self, late: frozenset[str] = frozenset()) -> float:
        """
        The longest time, in seconds, for which a polling consumer did not get an acknowledged value.

        A poll that ended at an offset shows that the consumer had seen no value beyond it.

        :param late: consumers that began to read late, and do not count.
        """
        acknowledged: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for send in self.sends:
            if send.outcome == OK and send.offset is not None:
                acknowledged[send.partition].append((send.offset, send.end))
        # The earliest acknowledgement of anything at or behind an offset.
        earliest: dict[int, tuple[list[int], list[float]]] = {}
        for partition, pairs in acknowledged.items():
            pairs.sort()
            ends = [end for _, end in pairs]
            for i in range(len(ends) - 2, -1, -1):
                ends[i] = min(ends[i], ends[i + 1])
            earliest[partition] = ([offset for offset, _ in pairs], ends)
        worst = 0.0
        for poll in self.polls:
            if poll.consumer in late:
                continue
            offsets, ends = earliest.get(poll.partition, ([], []))
            after = poll.records[-1][0] + 1 if poll.records else poll.position
            place = bisect_left(offsets, after)
            if place < len(ends):
                worst = max(worst, poll.time - ends[place])
        return worst


class _View:
    """A history, indexed for the checks."""

    def __init__(self, sends: Sequence[Send], polls: Sequence[Poll], readers: frozenset[str]) -> None:
        self._sends = sends
        self._polls = polls
        # The offsets at which each value was seen, and the values seen at each offset.
        self._places: dict[int, dict[tuple[int, int], str]] = defaultdict(dict)
        self._values: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
        self._polled: dict[int, list[int]] = {}
        self._polled_values: dict[int, tuple[int, int]] = {}
        for send in sends:
            if send.outcome == OK and send.offset is not None:
                for index, value in enumerate(send.values):
                    self._note(send.partition, send.offset + index, value, f"told to {send.producer}")
        self._seen_last: set[int] = set()
        by_partition: dict[int, set[int]] = defaultdict(set)
        for poll in polls:
            for offset, value in poll.records:
                self._note(poll.partition, offset, value, f"polled by {poll.consumer} at {poll.time:.3f}")
                by_partition[poll.partition].add(offset)
                self._polled_values[value] = (poll.partition, offset)
                if not readers or poll.consumer in readers:
                    self._seen_last.add(value)
        for partition, offsets in by_partition.items():
            self._polled[partition] = sorted(offsets)

    def _note(self, partition: int, offset: int, value: int, how: str) -> None:
        self._places[value].setdefault((partition, offset), how)
        self._values[partition, offset].setdefault(value, how)

    def inconsistent_offsets(self) -> Iterator[Anomaly]:
        """Two values at one offset."""
        for (partition, offset), values in self._values.items():
            if len(values) > 1:
                yield Anomaly("inconsistent-offsets", f"partition {partition} offset {offset} is {_told(values)}")

    def duplicates(self) -> Iterator[Anomaly]:
        """One value at two offsets."""
        for value, places in self._places.items():
            if len(places) > 1:
                yield Anomaly("duplicate", f"value {value} is at {_told(places)}")

    def aborted_reads(self) -> Iterator[Anomaly]:
        """Values that were read although their send had failed, or that were never sent."""
        outcomes = {value: send for send in self._sends for value in send.values}
        for value, (partition, offset) in self._polled_values.items():
            send = outcomes.get(value)
            if send is None:
                yield Anomaly(
                    "never-sent", f"value {value} at partition {partition} offset {offset} was sent by nobody"
                )
            elif send.outcome == FAIL:
                yield Anomaly(
                    "aborted-read",
                    f"value {value} was read at partition {partition} offset {offset}; {send.producer} was told at "
                    f"{send.end:.3f} that it was refused",
                )
            elif send.partition != partition:
                yield Anomaly("wrong-partition", f"value {value} was sent to {send.partition}, and is in {partition}")

    def order_of_polls(self) -> Iterator[Anomaly]:
        """Consumers that saw offsets go back, or missed some that others saw."""
        last: dict[tuple[str, int], int] = {}
        for poll in self._polls:
            key = (poll.consumer, poll.partition)
            offsets = self._polled.get(poll.partition, [])
            for offset, _ in poll.records:
                before = last.get(key)
                if before is not None and offset <= before:
                    yield Anomaly(
                        "nonmonotonic-poll",
                        f"{poll.consumer} polled offset {offset} of partition {poll.partition} after {before}",
                    )
                elif before is not None and offset > before + 1:
                    between = offsets[bisect_right(offsets, before) : bisect_left(offsets, offset)]
                    if between:
                        yield Anomaly(
                            "poll-skip",
                            f"{poll.consumer} polled offset {offset} of partition {poll.partition} right after "
                            f"{before}; {_some(between)} were there for others",
                        )
                last[key] = offset

    def order_of_sends(self) -> Iterator[Anomaly]:
        """Producers whose later values come earlier in the log, though one was sent after the other was answered."""
        last: dict[tuple[str, int], tuple[float, int, int]] = {}
        known = {value: min(places) for value, places in self._places.items()}
        for send in sorted(self._sends, key=lambda send: send.begin):
            offsets = [known[value][1] for value in send.values if value in known]
            key = (send.producer, send.partition)
            for one, other in pairwise(offsets):
                if other <= one:
                    yield Anomaly("nonmonotonic-send", f"{send.producer}'s batch {_some(send.values)} is out of order")
                    break
            if not offsets:
                continue
            before = last.get(key)
            if before is not None and before[0] <= send.begin and offsets[0] <= before[1]:
                yield Anomaly(
                    "nonmonotonic-send",
                    f"{send.producer} sent {send.values[0]} to partition {send.partition} after {before[2]}, and it is "
                    f"at offset {offsets[0]}, before {before[1]}",
                )
            # A send with an unknown outcome may still be in flight, and arrive at any time.
            if send.outcome == OK:
                last[key] = (send.end, offsets[-1], send.values[-1])

    def missing(self) -> Iterator[Anomaly]:
        """Acknowledged values that were never polled, or are missing in the end."""
        for send in self._sends:
            if send.outcome != OK:
                continue
            lost = [value for value in send.values if value not in self._seen_last]
            if not lost:
                continue
            polled = self._polled.get(send.partition)
            below = send.offset is not None and polled and send.offset < polled[-1]
            yield Anomaly(
                "lost-write" if below else "unseen",
                f"{_some(lost)} of {send.producer}, acknowledged at {send.end:.3f} as offset {send.offset} of "
                f"partition {send.partition}, was not polled"
                + (f"; offset {polled[-1]} was" if below and polled else ""),
            )


def _told(things: Mapping[Any, str]) -> str:
    return " and ".join(f"{thing} ({how})" for thing, how in list(things.items())[:3])


def _some(things: Sequence[int]) -> str:
    return ", ".join(map(str, things[:5])) + (f" and {len(things) - 5} more" if len(things) > 5 else "")
