"""A producer's transactions at random: requests are lost, blocks fail or are cancelled, and not all is awaited."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from logbus.client.producer.producer import Producer
from logbus.client.producer.transaction_errors import OutcomeUnknown, ProducerUnusable
from logbus.errors import Disconnected, LogbusError
from tests.client.producer.test_transaction_manager import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    COMMIT_OFFSETS,
    END,
    INIT,
    P0,
    PRODUCE,
    TransactionalCase,
    sleep,
)

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


def unanswered(answer: Any) -> Any:
    """The request arrives; nobody hears of it."""
    if isinstance(answer, Failure) and answer.check(CancelledError):
        return answer
    raise Disconnected("no answer came")


class RandomTransactionTests(TransactionalCase):
    """What is reported is what readers of committed records see."""

    def test_outcomes(self) -> None:
        """
        Each transaction is there as a whole and in order, or not at all; the producer stays usable.
        """
        for seed in range(12):
            random = Random(seed)
            producer = self.producer(
                batch_bytes=random.choice([100, 1000, 64 * 1024]),
                buffer_bytes=random.choice([2000, 5000, 10**6]),
                linger=random.choice([0.0, 0.01, 0.1]),
                delivery_timeout=random.choice([2.0, 20.0]),
            )
            outcomes: dict[int, str] = {}
            counts: dict[int, int] = {}
            for number in range(8):
                counts[number] = random.randrange(1, 30)
                outcomes[number] = self.outcome(producer, random, seed, number, counts[number])
            self.fates.clear()
            self.now(producer.close())
            self.several.settle(10)
            found = [[int(each) for each in (value or b"").rstrip(b"x").split(b"-")] for value in self.committed()]
            mine = [each[1:] for each in found if each[0] == seed]
            for partition in (0, 1):
                order = [each for each in mine if each[1] % 2 == partition]
                self.assertEqual(order, sorted(order), seed)
            for number, outcome in outcomes.items():
                there = sorted(each[1] for each in mine if each[0] == number)
                whole = list(range(counts[number]))
                allowed = {COMMITTED: [whole], ABORTED: [[]], UNKNOWN: [[], whole]}[outcome]
                self.assertIn(there, allowed, (seed, number, outcome))

    def outcome(self, producer: Producer, random: Random, seed: int, number: int, count: int) -> str:
        """Run a transaction, which may be cancelled."""
        for key in (PRODUCE, END, ADD_PARTITIONS, COMMIT_OFFSETS, INIT, ADD_OFFSETS):
            if random.random() < 0.4:
                fates = [None, "lost", unanswered]
                self.fates[key] = [random.choice(fates) for _ in range(random.randrange(1, 5))]
        working = Deferred.fromCoroutine(self.work(producer, random, seed, number, count))
        if random.random() < 0.3:
            self.several.settle(random.choice([0, 0.005, 0.05, 0.3]))
            working.cancel()
        try:
            self.now(working, 300)
        except ProducerUnusable:
            raise
        except (OutcomeUnknown, CancelledError):
            return UNKNOWN
        except (ZeroDivisionError, LogbusError):
            return ABORTED
        return COMMITTED

    async def work(self, producer: Producer, random: Random, seed: int, number: int, count: int) -> None:
        async with producer.transaction() as transaction:
            for each in range(count):
                value = b"%d-%d-%d" % (seed, number, each) + b"x" * random.choice([0, 50])
                sent = producer.send("t", value, partition=each % 2)
                if random.random() < 0.2:
                    await sent
                else:
                    sent.addErrback(lambda _: None)
                if random.random() < 0.1:
                    await sleep(self.several.clock, random.choice([0.01, 0.3]))
            if random.random() < 0.4:
                offsets = transaction.send_offsets({P0: number + 1}, "g")
                if random.random() < 0.5:
                    await offsets
                else:
                    offsets.addErrback(lambda _: None)
            if random.random() < 0.3:
                raise ZeroDivisionError


class OldRandomTransactionTests(RandomTransactionTests):
    """The same by V1."""

    by_v2 = False
