"""
Random tests of groups with power cuts: no acknowledged change is lost.

Clients of both protocols send random requests, syncs are slow, and the cleaner runs; then the machine stops at any step
of the disk, and a broker starts on the data left. ``LOGBUS_POWER_CUT_SEEDS`` in the environment sets the number of
runs.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import Any, TypeVar

from twisted.internet.testing import MemoryReactorClock
from twisted.logger import LogLevel, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from logbus.testing.simulation.environment.memory_disk import (
    Crashed,
    Directory,
    Inode,
    IOPool,
    MemoryDisk,
    PowerCutOutcome,
)
from logbus.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from logbus.wire.messages.groups import FindCoordinatorRequest
from tests.coordination.group_clients import (
    PARTITIONS,
    Actor,
    ClassicMember,
    ConsumerMember,
    Promises,
    TransactionalActor,
)
from tests.handlers.group_kit import fetch_committed
from tests.handlers.kit import Client, MemoryBroker
from tests.handlers.test_consumer_groups import ConsumerGroupCase

SEEDS = int(os.environ.get("LOGBUS_POWER_CUT_SEEDS", "8"))
FIRST = int(os.environ.get("LOGBUS_POWER_CUT_FIRST", "0"))

STEPS = 160

A = TypeVar("A", bound=Actor)

CONFIG = {
    "log.flush.before.ack": "true",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": "2000",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.segment.bytes": "2000",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.session.timeout.ms": "10000",
}


class Scenario:
    """A run of one seed: clients, and a broker that is killed and restarted."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.promises = Promises()
        self.server = MemoryBroker(CONFIG).start()
        self.server.create("t", PARTITIONS)
        for kind, key in enumerate(("classic", "x")):
            self.server.connect().ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)
        self.made = 0
        self.actors: list[Actor] = [self.actor(TransactionalActor, "transactional")]

    @property
    def disk(self) -> MemoryDisk:
        return self.server.disks[0]

    @property
    def reactor(self) -> Any:
        return self.server.reactor

    def tell(self) -> None:
        for _ in range(STEPS):
            if self.disk.crashed:
                self.cut()
                continue
            try:
                self.step()
                self.listen()
            except Crashed:
                pass  # The disk says so, too; mostly it is caught on the way.
        if self.disk.crashed:
            self.cut()
        self.end()

    # What happens.

    def step(self) -> None:
        what = self.rng.random()
        if what < 0.12 or not self.actors:
            self.come()
        elif what < 0.72:
            actor = self.rng.choice(self.actors)
            if not actor.waits:
                actor.act()
            elif self.rng.random() < 0.15:
                actor.hang_up()
        elif what < 0.88:
            self.advance(self.rng.choice([0, 0.1, 0.5, 1, 3]))
        elif what < 0.91:
            self.disk.held.add(IOPool.SYNC)
        elif what < 0.955:
            self.release()
        elif what < 0.985:
            self.disk.crash_at = self.disk.steps + self.rng.randrange(30)
        elif what < 0.992:
            self.restart()
        else:
            # The plug is pulled while the broker does nothing, or waits for the disk.
            self.disk.crashed = True

    def come(self) -> None:
        self.made += 1
        kind = self.rng.choice([Actor, ClassicMember, ConsumerMember])
        if sum(type(actor) is kind for actor in self.actors) >= 4:
            return
        group_id = {Actor: "simple", ClassicMember: "classic", ConsumerMember: "consumer"}[kind]
        actor = self.actor(kind, group_id)
        if isinstance(actor, ConsumerMember):
            actor.member_id = f"m{self.made}"
            actor.topic_id = self.server.topic_id()
        self.actors.append(actor)

    def actor(self, kind: type[A], group_id: str) -> A:
        return kind(group_id, self.promises, self.rng, self.connect, self.seconds)

    def connect(self) -> Client:
        return self.server.connect()

    def seconds(self) -> float:
        return float(self.reactor.seconds())

    def advance(self, seconds: float) -> None:
        self.reactor.advance(seconds)
        self.reactor.advance(0)

    def release(self) -> None:
        self.disk.held.discard(IOPool.SYNC)
        self.disk.release(IOPool.SYNC)

    def listen(self) -> None:
        """Process the responses, and check that no two clients read the same partition."""
        for _ in range(3):
            self.reactor.advance(0)
        if self.disk.crashed:
            # Some of it may have been said after the machine had stopped.
            return
        for actor in self.actors:
            actor.listen()
        self.actors = [actor for actor in self.actors if not actor.gone or actor.waits]
        readers = [(actor, actor.holds) for actor in self.actors if isinstance(actor, ConsumerMember)]
        held = Counter(partition for _, reads in readers for partition in reads)
        twice = [partition for partition, count in held.items() if count > 1]
        assert not twice, [(actor.member_id, actor.epoch, reads) for actor, reads in readers]

    # Lives.

    def restart(self) -> None:
        """In good order."""
        self.disk.crash_at = None
        self.release()
        for _ in range(3):
            self.reactor.advance(0)
        self.server.stop()
        self.ended()
        for actor in self.actors:
            actor.listen()
            assert not actor.waits, f"{actor} is left waiting by a broker that has stopped"
        self.begin(list(self.server.disks))
        self.promises.count("restarts")

    def cut(self) -> None:
        """The machine has stopped; responses since its last step are lost."""
        self.promises.count("cuts in the middle of a request", any(actor.waits for actor in self.actors))
        self.ended()
        for actor in self.actors:
            actor.cut_off()
        mode = self.rng.choice(["lose", "lose", "keep", "tear", "reorder"])
        if mode == "lose":
            self.promises.count("lost bytes", unsynced_bytes(self.disk.tree))
        ensemble = self.server.ensemble
        for client in list(ensemble.clients):
            # A dead process hears nothing; its session ends all the same.
            ensemble.clients.remove(client)
            ensemble.end(client.session_id)
        self.begin([self.disk.after_power_cut(PowerCutOutcome(mode, self.rng))])
        self.promises.count("cuts")

    def ended(self) -> None:
        broker = self.server.broker
        self.promises.count("cleanings", broker.logs.cleaner.cleanings)
        assert not broker.logs.cleaner.uncleanable or self.disk.crashed, broker.logs.cleaner.uncleanable
        assert not self.server.lost or self.disk.crashed, self.server.lost

    def begin(self, disks: list[MemoryDisk]) -> None:
        reactor = MemoryReactorClock()
        reactor.advance(self.reactor.seconds() + 0.5)
        self.server = MemoryBroker(CONFIG, disks=disks, ensemble=self.server.ensemble, reactor=reactor)
        # No two lives make the same member ids.
        self.server.broker.env.random.seed(self.rng.random())
        self.server.start()
        coordinator = self.server.broker.coordinators.groups
        for _ in range(200):
            if not coordinator.loading:
                break
            reactor.advance(0)
        assert not coordinator.loading
        assert coordinator.metrics.damaged == 0, "what the log says of groups is damaged"
        self.check()

    def check(self) -> None:
        client = self.server.connect()
        for group_id in ("classic", "consumer", "simple"):
            self.promises.check(group_id, fetch_committed(client, group_id))
        promised = self.promises.acknowledged.get(("transactional", 0), -1)
        for _ in range(50):
            found = fetch_committed(client, "transactional", {"t": [0, 1]})
            assert found["t", 0] == found["t", 1], f"half of a transaction: {found}"
            if found["t", 0] >= promised:
                break
            # It is decided, and the markers are under way.
            self.advance(0.1)
        self.promises.check("transactional", found)

    def end(self) -> None:
        """All requests were answered, and no timer is pending."""
        self.disk.crash_at = None
        self.release()
        self.listen()
        for _ in range(40):
            self.advance(10)
        self.listen()
        assert not any(actor.waits for actor in self.actors), [a for a in self.actors if a.waits]
        coordinator = self.server.broker.coordinators.groups
        assert all(group.is_empty for group in coordinator.groups()), coordinator.states()
        assert not len(coordinator.manager._timers), "a timer of a group is left"
        self.check()
        self.ended()
        self.server.close()


def unsynced_bytes(entry: Inode | Directory) -> int:
    """Data that a power cut may lose."""
    if isinstance(entry, Directory):
        return sum(unsynced_bytes(child) for child in entry.entries.values())
    return sum(len(written) for _, written in entry.unsynced if written)


class PowerCutTests(SynchronousTestCase):
    """Many stories."""

    def test_acknowledged_changes_survive(self) -> None:
        """Commits survive, partitions have one owner, stale members are refused, and all requests are answered."""
        problems: list[Any] = []

        def observe(event: Any) -> None:
            failure = event.get("log_failure")
            if event["log_level"] >= LogLevel.critical and not (failure and failure.check(Crashed)):
                problems.append((event["log_format"], failure and failure.getTraceback()))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        counts: Counter[str] = Counter()
        for seed in range(FIRST, FIRST + SEEDS):
            story = Scenario(seed)
            try:
                story.tell()
            except BaseException as error:
                raise AssertionError(f"seed {seed}: {error}") from error
            finally:
                self.flushLoggedErrors(Crashed)
            self.assertEqual(problems, [], f"seed {seed}")
            counts.update(story.promises.counts)
        if "LOGBUS_POWER_CUT_SEEDS" in os.environ:
            print(dict(counts))
        for what, least in (
            ("commits", 10),
            ("assignments", 5),
            ("stale", 1),
            ("cuts", 2),
            ("cuts in the middle of a request", 0.3),
            ("lost bytes", 50),
            ("restarts", 0.2),
            ("cleanings", 1),
            ("transactions", 2),
            ("aborted transactions", 1),
        ):
            self.assertGreaterEqual(counts[what], least * SEEDS, what)


class RepeatedHeartbeatTests(ConsumerGroupCase):
    """A member that lost an answer asks again."""

    config = {**ConsumerGroupCase.config, "log.flush.before.ack": "true"}

    def test_repeated_heartbeat_waits_for_the_write(self) -> None:
        """The second response, too, waits for the write that the first one waits for."""
        self.consumer("a").beat()
        self.disk.held.add(IOPool.SYNC)
        joining = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="b", member_epoch=0, rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"], topic_partitions=[],
        )  # fmt: skip
        clients = [self.server.connect() for _ in range(2)]
        for client in clients:
            client.send(joining, 1)
            client.turn()
            self.assertEqual(client.answers(), [])
            client.turn()
        self.disk.held.clear()
        self.disk.release(IOPool.SYNC)
        for client in clients:
            client.turn()
            (answer,) = client.answers()
            self.assertEqual((answer.error_code, answer.member_id), (0, "b"))
