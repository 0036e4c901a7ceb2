"""
The history of transactions and of committed reads, and its check for exactly-once semantics. Pure.

Values are integers, each sent once. A transaction writes some of them to partitions of one topic, and may commit its
own number as an offset of a group, so that each offset shows its transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import inf

from attrs import define, field

from logbus.testing.simulation.checks.history import FAIL, INFO, OK, Anomaly, History, Poll, Send


@define(eq=False)
class ProducerSession:
    """
    One producer epoch of a transactional id, from its InitProducerId on.

    :ivar asked: when its first request was sent, ``answered``: when the last was answered; in seconds.
    """

    transactional_id: str
    number: int
    asked: float
    answered: float = inf


@define(eq=False)
class Write:
    """
    A batch of a transaction.

    :ivar offset: of the first value, if it was acknowledged; −1 if unknown.
    :ivar begin: when it was first sent, ``end``: when the outcome was known; in seconds.
    """

    partition: int
    values: tuple[int, ...]
    begin: float
    end: float = inf
    offset: int | None = None

    @property
    def acknowledged(self) -> bool:
        """Whether a broker acknowledged it."""
        return self.offset is not None


@define(eq=False)
class Transaction:
    """
    One transaction of a producer.

    :ivar number: unique; later transactions of a producer have higher ones.
    :ivar offsets: whether it committed its number as an offset for the group.
    :ivar outcome: ``ok``: committed, by the answer; ``fail``: certainly not; ``info``: unknown.
    :ivar asked: when the commit was first sent: it may happen from then on. ``ended``: when the answer came.
    """

    session: ProducerSession
    number: int
    begin: float
    writes: list[Write] = field(factory=list)
    offsets: bool = False
    outcome: str = FAIL
    asked: float = inf
    ended: float = inf

    @property
    def values(self) -> list[int]:
        """All its values."""
        return [value for write in self.writes for value in write.values]

    def commits(self, now: float) -> None:
        """The commit is sent: the outcome is unknown until it is answered."""
        if self.asked == inf:
            self.asked = now
            self.outcome = INFO

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.session.transactional_id} ({self.session.number})"


@define(eq=False)
class OffsetRead:
    """
    A stable offset that was read, with its transactional id and the time.

    :ivar number: the offset; −1: there was none.
    """

    transactional_id: str
    number: int
    time: float


@define(eq=False)
class TransactionHistory:
    """All transactions, in the order in which they began, and all offset reads."""

    sessions: list[ProducerSession] = field(factory=list)
    transactions: list[Transaction] = field(factory=list)
    offset_reads: list[OffsetRead] = field(factory=list)

    def session(self, transactional_id: str, now: float) -> ProducerSession:
        """Begin a session: its first request is about to be sent."""
        session = ProducerSession(transactional_id, len(self.sessions) + 1, now)
        self.sessions.append(session)
        return session

    def begin(self, session: ProducerSession, now: float) -> Transaction:
        """Begin a transaction."""
        transaction = Transaction(session, len(self.transactions) + 1, now)
        self.transactions.append(transaction)
        return transaction

    @property
    def committed(self) -> int:
        """The number of transactions whose commit was acknowledged."""
        return sum(each.outcome == OK for each in self.transactions)

    def sends(self) -> list[Send]:
        """The writes as sends of a history, each with the outcome of its transaction."""
        found = []
        for each in self.transactions:
            producer = f"{each.session.transactional_id} ({each.session.number})"
            for write in each.writes:
                offset = write.offset if each.outcome == OK and write.offset is not None and write.offset >= 0 else None
                found.append(
                    Send(producer, write.partition, write.values, each.outcome, offset, write.begin, write.end)
                )
        return found

    def check(
        self,
        polls: Sequence[Poll],
        *,
        others: Sequence[Send] = (),
        finished: bool = True,
        readers: frozenset[str] = frozenset(),
        offsets: dict[str, int] | None = None,
    ) -> list[Anomaly]:
        """
        All anomalies.

        :param polls: of readers of committed records.
        :param others: sends to the same partitions without transactions.
        :param finished: whether readers went on until nothing more came, and all transactions had ended.
        :param readers: those that read everything in the end.
        :param offsets: by transactional id, the last offset of the group in the end.
        """
        sends = [*self.sends(), *others]
        found = History(sends, list(polls)).check(finished=finished, readers=readers)
        found += self._early(polls)
        found += self._zombies()
        found += self._offsets_read()
        if finished:
            last = {
                value for poll in polls if not readers or poll.consumer in readers for _, value in poll.records
            }  # fmt: skip
            found += self._torn(last)
            found += self._offsets_left(last, offsets or {})
        return found

    def _early(self, polls: Sequence[Poll]) -> Iterator[Anomaly]:
        """Values that were read before their commit was sent."""
        of = {value: each for each in self.transactions for value in each.values}
        told: set[int] = set()
        for poll in polls:
            for offset, value in poll.records:
                each = of.get(value)
                if each is not None and poll.time < each.asked != inf and each.number not in told:
                    told.add(each.number)
                    yield Anomaly(
                        "precommitted-read",
                        f"value {value} of {each}, which asked for its commit at {each.asked:.3f}, was polled by "
                        f"{poll.consumer} at {poll.time:.3f} as offset {offset} of partition {poll.partition}",
                        poll.partition,
                        poll.time,
                    )

    def _zombies(self) -> Iterator[Anomaly]:
        """Requests that succeeded after a later producer with the same transactional id had begun."""
        sessions: dict[str, list[ProducerSession]] = defaultdict(list)
        for session in self.sessions:
            sessions[session.transactional_id].append(session)

        def fenced_at(session: ProducerSession) -> float:
            """When it was certainly over."""
            later = [
                each.answered for each in sessions[session.transactional_id] if each.asked > session.answered
            ]  # fmt: skip
            return min(later, default=inf)

        for each in self.transactions:
            end = fenced_at(each.session)
            if each.outcome == OK and each.asked > end:
                yield Anomaly(
                    "zombie-commit",
                    f"{each} asked for its commit at {each.asked:.3f}, and was granted it; a later producer had begun "
                    f"at {end:.3f}",
                )
            for write in each.writes:
                if write.acknowledged and write.begin > end:
                    yield Anomaly(
                        "zombie-write",
                        f"{each} sent {write.values[0]} at {write.begin:.3f}, and was told that it is at offset "
                        f"{write.offset} of partition {write.partition}; a later producer had begun at {end:.3f}",
                        write.partition,
                        write.end,
                    )

    def _torn(self, last: set[int]) -> Iterator[Anomaly]:
        """Transactions of which only a part is there."""
        for each in self.transactions:
            values = each.values
            there = [value for value in values if value in last]
            if each.outcome == INFO and there and len(there) < len(values):
                missing = [value for value in values if value not in last]
                yield Anomaly("torn-transaction", f"of {each} {there} are there, and {missing} are not")

    def _offsets_read(self) -> Iterator[Anomaly]:
        """Offsets that were not committed, or that went back."""
        by_number = {each.number: each for each in self.transactions}
        latest: dict[str, OffsetRead] = {}
        for read in self.offset_reads:
            before = latest.get(read.transactional_id)
            if before is not None and read.number < before.number:
                yield Anomaly(
                    "offset-back",
                    f"the offset of {read.transactional_id} was {before.number} at {before.time:.3f}, and "
                    f"{read.number} at {read.time:.3f}",
                )
            latest[read.transactional_id] = read
            if read.number < 0:
                continue
            each = by_number.get(read.number)
            if each is None or not each.offsets or each.session.transactional_id != read.transactional_id:
                yield Anomaly("never-sent", f"the offset of {read.transactional_id} is {read.number}, sent by nobody")
            elif each.outcome == FAIL:
                yield Anomaly("aborted-offset", f"{each} was aborted; its offset was read at {read.time:.3f}")
            elif read.time < each.asked:
                yield Anomaly(
                    "precommitted-offset",
                    f"{each} asked for its commit at {each.asked:.3f}; its offset was read at {read.time:.3f}",
                )

    def _offsets_left(self, last: set[int], offsets: dict[str, int]) -> Iterator[Anomaly]:
        """Check that each group's final offset is that of its last committed transaction."""
        with_offsets: dict[str, list[Transaction]] = defaultdict(list)
        for each in self.transactions:
            if each.offsets and each.outcome != FAIL:
                with_offsets[each.session.transactional_id].append(each)
        for transactional_id, number in offsets.items():
            those = with_offsets[transactional_id]
            certain = _last(each for each in those if each.outcome == OK or last.intersection(each.values))
            possible = {
                each.number for each in those if each.outcome == INFO and not each.writes and each.number > certain
            }
            if number == certain or number in possible:
                continue
            missing = number < certain
            yield Anomaly(
                "torn-offset" if missing else "aborted-offset",
                f"the offset of {transactional_id} is {number} in the end; that of transaction {certain} is the last "
                "that was committed",
            )


def _last(transactions: Iterable[Transaction]) -> int:
    return max((each.number for each in transactions), default=-1)


def exactly_once(inputs: Sequence[int], outputs: Sequence[int], partition: int) -> Iterator[Anomaly]:
    """
    Check that a copying stage made exactly one output of each input, in order.

    :param inputs: all of a partition, ``outputs``: all in the end.
    """
    if list(inputs) == list(outputs):
        return
    counts: dict[int, int] = defaultdict(int)
    for value in outputs:
        counts[value] += 1
    twice = [value for value, count in counts.items() if count > 1]
    lost = [value for value in inputs if value not in counts]
    foreign = sorted(counts.keys() - set(inputs))
    for kind, values in (("done-twice", twice), ("not-done", lost), ("never-sent", foreign)):
        if values:
            yield Anomaly(kind, f"partition {partition}: {values[:10]} ({len(values)} in all)", partition)
    if not (twice or lost or foreign):
        yield Anomaly("out-of-order", f"partition {partition}: outputs are not in the order of inputs", partition)


__all__ = [
    "FAIL",
    "INFO",
    "OK",
    "TransactionHistory",
    "OffsetRead",
    "ProducerSession",
    "Transaction",
    "Write",
    "exactly_once",
]
