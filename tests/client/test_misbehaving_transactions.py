"""
Transactions at coordinators whose responses are late, truncated, out of order, or missing: each is committed or aborted
as a whole, as its producer was told, and later ones succeed.
"""

from __future__ import annotations

from random import Random
from typing import Any

from logbus.client.cluster.cluster import Cluster
from logbus.client.producer.producer import Producer
from logbus.client.producer.transaction_errors import OutcomeUnknown, ProducerUnusable
from logbus.errors import LogbusError
from tests.client.misbehaving_brokers import MISBEHAVIORS
from tests.client.misbehaving_network import MisbehavingNetwork
from tests.client.producer.test_transaction_manager import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    CLIENT,
    COMMIT_OFFSETS,
    END,
    INIT,
    P0,
    PRODUCE,
    TransactionalCase,
)
from tests.cluster.memory_cluster import PORT, host_of

FIND = 10
ABOUT = frozenset({INIT, ADD_PARTITIONS, ADD_OFFSETS, COMMIT_OFFSETS, END, PRODUCE, FIND})


class Transactions:
    """Mixed into cases of each version of transactions."""

    def client(self: Any) -> Cluster:
        self.wire = MisbehavingNetwork(self.several.clock, Random(1), ABOUT, share=0.3)
        cluster = Cluster(
            self.several.clock,
            f"{host_of(0)}:{PORT}",
            endpoint=self.wire.endpoint(self.several.network.from_machine(CLIENT)),
            timeout=self.wire.patience,
            connect_timeout=self.wire.patience,
        )
        self.addCleanup(lambda: self.now(cluster.close()))
        return cluster

    async def one(self: Any, producer: Producer, value: bytes, offset: int) -> str:
        """One transaction in both partitions, with an offset; what became of it."""
        try:
            async with producer.transaction() as transaction:
                for partition in (0, 1):
                    producer.send("t", value, partition=partition).addErrback(lambda _: None)
                await transaction.send_offsets({P0: offset}, "g")
        except OutcomeUnknown:
            return "unknown"
        except LogbusError as e:
            self.assertGreater(len(str(e)), 20)
            return "unusable" if isinstance(e, ProducerUnusable) else "aborted"
        return "committed"

    def test_lies(self: Any) -> None:
        """
        Of each kind alone, and of all of them.
        """
        outcomes: dict[bytes, str] = {}
        offset = 0
        for seed, misbehaviors in enumerate([*([each] for each in MISBEHAVIORS), MISBEHAVIORS]):
            with self.subTest(misbehaviors=[each.__name__ for each in misbehaviors]):
                producer = self.producer(transaction_timeout=10.0)
                self.wire.chance, self.wire.misbehaviors, self.wire.told = Random(seed), tuple(misbehaviors), 0
                for number in range(8):
                    offset += 1
                    value = b"%d-%d" % (seed, number)
                    outcomes[value] = self.now(self.one(producer, value, offset), 200)
                    if outcomes[value] == "unusable":
                        producer.abort()
                        producer = self.producer(transaction_timeout=10.0)
                self.assertGreater(self.wire.told, 3)
                self.wire.be_honest()
                # One whose outcome is not known, or that could not be aborted, ends by its timeout.
                self.several.settle(15)
                offset += 1
                value = b"%d" % seed
                outcomes[value] = self.now(self.one(producer, value, offset), 60)
                if outcomes[value] != "committed":
                    producer = self.producer()
                    outcomes[value] = self.now(self.one(producer, value, offset), 60)
                self.assertEqual(outcomes[value], "committed")
                self.assertEqual(self.offsets(), {P0: offset})
                self.now(producer.close())
        found = self.committed()
        for value, outcome in outcomes.items():
            wanted = {"committed": (2,), "aborted": (0,)}.get(outcome, (0, 2))
            self.assertIn(found.count(value), wanted, (value, outcome))
        self.assertGreater(list(outcomes.values()).count("committed"), len(outcomes) // 2)


class VersionTwoTests(Transactions, TransactionalCase):
    """By transaction version 2."""


class VersionOneTests(Transactions, TransactionalCase):
    """By transaction version 1."""

    by_v2 = False
