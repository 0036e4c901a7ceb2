"""
Events that :mod:`benchmarks.longest_events` has a broker begin, over a Unix socket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

ELSEWHERE = 99
"""A broker that does not exist."""

PAUSE_SECONDS = 0.005
A_TURN, WRITTEN_A_TURN = 50, 5
"""Partitions that are prepared, or written to, in one turn."""


def the_broker() -> Callable[[], Any]:
    """A function that returns the broker of this process, once there is one."""
    from logbus.broker import Broker

    made: list[Any] = []
    original = Broker.startService

    def start(self: Any) -> Any:
        made.append(self)
        return original(self)

    Broker.startService = start  # type: ignore[method-assign]
    return lambda: made[0]


def control(path: str, broker: Callable[[], Any]) -> None:
    """In the broker: do what comes over a Unix socket, and answer when it is done."""
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred
    from twisted.internet.protocol import Factory
    from twisted.protocols.basic import LineReceiver

    class Control(LineReceiver):
        delimiter = b"\n"

        def lineReceived(self, line: bytes) -> None:
            name, *arguments = line.decode().split()
            done = Deferred.fromCoroutine(COMMANDS[name](broker(), *arguments))
            done.addCallbacks(lambda _: self.sendLine(b"done"), lambda failure: self.sendLine(str(failure).encode()))

    reactor.listenUNIX(path, Factory.forProtocol(Control))  # type: ignore[attr-defined]


async def take_office(broker: Any) -> None:
    """Become the controller once more: load everything, and send it to all brokers."""
    controller = broker.control.controller
    before = controller.active.epoch
    await controller.store.delete("/controller")
    await broker.member.metadata.wait_for(lambda _: controller.active is not None and controller.active.epoch > before)


async def take_roles(broker: Any, role: str, prefix: str = "") -> None:
    """Have the broker follow another one, or lead again, for all partitions of topics whose names begin so."""
    from twisted.internet.task import deferLater

    from logbus.cluster.metadata_update import MetadataUpdate, PartitionState

    metadata, receiver = broker.member.metadata, broker.control.receiver
    states = []
    for topic in list(metadata.topics.values()):
        if topic.name.startswith(prefix):
            for number, image in enumerate(topic.partitions):
                leader = broker.broker_id if role == "lead" else ELSEWHERE
                before = image.leader_and_isr
                after = attrs.evolve(before, leader=leader, leader_epoch=before.leader_epoch + 1, isr=(leader,))
                name = broker.replication.replicas.get(topic.name, number).topic_partition
                replicas = (broker.broker_id, ELSEWHERE)
                states.append(PartitionState(name, topic.topic_id, replicas, after, False, topic.configs))
                if not len(states) % A_TURN:
                    await deferLater(broker.env.reactor, 0)
    controller = broker.control.controller.active
    await receiver.apply(
        MetadataUpdate(broker.broker_id, controller.epoch, broker.member.membership.epoch, partitions=tuple(states))
    )


async def expire(broker: Any) -> None:
    """Remove what has expired."""
    await broker.coordinators.group_cleanup.expire()


async def lose_follower(broker: Any, prefix: str) -> None:
    """The broker that follows all these partitions is there, and then it is gone."""
    from logbus.cluster.images import BrokerImage

    for image in (BrokerImage(ELSEWHERE, {}), None):
        with broker.member.metadata.changing() as metadata:
            brokers = {one: its for one, its in metadata.brokers.items() if one != ELSEWHERE}
            metadata.set_brokers({**brokers, ELSEWHERE: image} if image else brokers)


async def write(broker: Any, prefix: str) -> None:
    """Append a record to each partition of topics whose names begin so."""
    from twisted.internet.task import deferLater

    from logbus.records.batch import Record, encode_batch

    for count, replica in enumerate(broker.replication.replicas):
        if replica.topic_partition.topic.startswith(prefix) and replica.partition.is_leader:
            replica.append(encode_batch([Record(0, 1, b"k", b"v", ())], base_offset=0), 1)
        if not count % WRITTEN_A_TURN:
            # Not faster than they are synced: files with unsynced data stay open.
            await deferLater(broker.env.reactor, PAUSE_SECONDS)


async def keep_house(broker: Any, work: str) -> None:
    """Do something that is done periodically to all logs."""
    getattr(broker.logs.housekeeping, work)()


async def clean(broker: Any) -> None:
    """Look for logs to compact."""
    await broker.logs.cleaner.clean_all()


async def scrub(broker: Any) -> None:
    """Check all closed segments."""
    await broker.logs.scrubber.scrub_all()


async def look_for_lags(broker: Any) -> None:
    """Look for followers that lag."""
    await broker.replication.isr.check_lags()


COMMANDS: dict[str, Callable[..., Any]] = {
    "office": take_office,
    "roles": take_roles,
    "expire": expire,
    "lose": lose_follower,
    "write": write,
    "house": keep_house,
    "clean": clean,
    "scrub": scrub,
    "lags": look_for_lags,
}
