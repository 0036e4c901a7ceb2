"""
What members of a share group were given and have accepted, and its check for anomalies. Pure.

Values are integers, each sent once: a value is a record, whatever offset it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import define, field, frozen

from logbus.testing.simulation.checks.history import FAIL, OK, Anomaly, Send

MOST_DELIVERIES = 10
"""``group.share.delivery.count.limit``."""


@frozen
class Delivery:
    """
    A record that a member was given.

    :ivar count: how often it was delivered, by the broker.
    :ivar asked: when the member sent its fetch, in seconds; ``time``: when it was answered.
    """

    member: str
    partition: int
    offset: int
    value: int
    count: int
    asked: float
    time: float


@define(eq=False)
class ShareHistory:
    """
    All deliveries of a group, and the values that are done: accepted or rejected, and confirmed.

    :ivar done: by value: when that was first confirmed, in seconds, and to whom.
    :ivar unsure: values whose acknowledgement was sent, and neither confirmed nor refused.
    """

    deliveries: list[Delivery] = field(factory=list)
    done: dict[int, tuple[float, str]] = field(factory=dict)
    unsure: set[int] = field(factory=set)

    def settle(self, values: Iterable[int], member: str, time: float) -> None:
        """Note that a member was told that its acknowledgement of values is kept."""
        for value in values:
            self.done.setdefault(value, (time, member))

    def undelivered(self, sends: Sequence[Send]) -> list[int]:
        """The values that were acknowledged to producers, and that no member was given."""
        given = {each.value for each in self.deliveries}
        return [value for send in sends if send.outcome == OK for value in send.values if value not in given]

    def unfinished(self, sends: Sequence[Send]) -> list[int]:
        """
        The values that were acknowledged to producers, and are not done, as far as is known. One that was delivered as
        often as may be is.
        """
        over = {each.value for each in self.deliveries if each.count >= MOST_DELIVERIES}
        known = self.done.keys() | self.unsure | over
        return [value for send in sends if send.outcome == OK for value in send.values if value not in known]

    def check(self, sends: Sequence[Send]) -> Iterator[Anomaly]:
        """
        All anomalies.

        :param sends: of producers; members went on until nothing more came, and accepted everything in the end.
        """
        outcomes = {value: send for send in sends for value in send.values}
        for each in self.deliveries:
            where = f"value {each.value} at offset {each.offset} of partition {each.partition}"
            done = self.done.get(each.value)
            # One that was asked for before may have been given before.
            if done is not None and each.asked > done[0]:
                yield Anomaly(
                    "delivered-again",
                    f"{where} was given to {each.member} at {each.time:.3f}, with the count {each.count}; "
                    f"{done[1]} had been told at {done[0]:.3f} that its acknowledgement is kept",
                    each.partition,
                    each.time,
                )
            send = outcomes.get(each.value)
            if send is None or send.partition != each.partition:
                yield Anomaly("never-sent", f"{where} was sent there by nobody", each.partition, each.time)
            elif send.outcome == FAIL:
                yield Anomaly(
                    "aborted-read",
                    f"{where} was given to {each.member}; {send.producer} was told at {send.end:.3f} that it was "
                    "refused",
                    each.partition,
                    each.time,
                )
        missing = self.undelivered(sends)
        for value in missing:
            send = outcomes[value]
            yield Anomaly(
                "not-delivered",
                f"value {value} of {send.producer}, acknowledged at {send.end:.3f} as of offset {send.offset} of "
                f"partition {send.partition}, was given to nobody",
                send.partition,
            )
        for value in sorted(set(self.unfinished(sends)) - set(missing)):
            last = max((each for each in self.deliveries if each.value == value), key=lambda each: each.time)
            yield Anomaly(
                "not-finished",
                f"value {value} at offset {last.offset} of partition {last.partition} was given to {last.member} at "
                f"{last.time:.3f}, with the count {last.count}, and to nobody again, though nobody has accepted it",
                last.partition,
                last.time,
            )
