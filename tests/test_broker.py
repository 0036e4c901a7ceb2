"""Tests of the composed broker: start, stop, failing parts."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, ConfigError, ErrorCode, StorageError
from logbus.ilogbus import Listener
from logbus.metastore.memory_store import MemoryEnsemble
from logbus.records.batch import ControlType, Marker, Record, encode_batch
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.testing.simulation.environment.memory_disk import IOPool, MemoryDisk, broken, no_space
from tests.handlers.kit import MemoryBroker, a_batch, content, fetch_request, produce_request


class StartAndStop(SynchronousTestCase):
    """Parts start in order and stop in reverse."""

    def recorded(self, server: MemoryBroker) -> list[str]:
        """Starts and stops of the broker's parts, as they happen."""
        events: list[str] = []
        for part in server.broker:
            for word in ("start", "stop"):
                original = getattr(part, f"{word}Service")

                def run(original: Any = original, event: str = f"{word} {part.name}") -> Any:
                    events.append(event)
                    return original()

                setattr(part, f"{word}Service", run)
        return events

    def test_order(self) -> None:
        """Logs before the metadata store, listeners before membership, serving last; the other way at the end."""
        server = MemoryBroker()
        events = self.recorded(server)
        server.start()
        order = [
            "ticks",
            "logs",
            "metastore",
            "peers",
            "isr",
            "fencing",
            "fetcher",
            "repairs",
            "logins",
            "listeners",
            "membership",
        ]
        order += ["groups", "transactions", "share states", "controller", "tokens", "serving", "conditions"]
        order += ["leadership", "mirrors"]
        self.assertEqual(events, [f"start {name}" for name in order])
        self.assertEqual(server.broker.readiness.not_ready(), [])
        del events[:]
        server.stop()
        self.assertEqual(events, [f"stop {name}" for name in reversed(order)])
        self.assertEqual(server.broker.readiness.not_ready(), ["the broker is starting or stopping"])

    def test_nothing_is_left(self) -> None:
        """After the stop no timer runs, no file is open, and the disk is free for another."""
        server = MemoryBroker().start()
        server.create("t", 3)
        client = server.connect()
        client.produce()
        client.fetch()
        server.stop()
        self.assertTrue(client.closed)
        self.assertEqual([str(call) for call in server.reactor.getDelayedCalls()], [])
        self.assertEqual(server.disks[0].open_files, 0)
        self.assertFalse(server.disks[0].locked)

    def test_back_again(self) -> None:
        """Records and topics are there after a restart, without recovery."""
        first = MemoryBroker().start()
        first.create("t", 2, retention_ms="5000")
        first.connect().produce(a_batch(b"kept"), partition=1)
        topic_id = first.topic_id()
        first.stop()
        again = MemoryBroker(disks=first.disks, ensemble=first.ensemble).start()
        self.addCleanup(again.close)
        client = again.connect()
        self.assertIn(b"kept", content(client.fetch(partition=1)))
        self.assertEqual(again.topic_id(), topic_id)
        self.assertEqual(again.broker.replication.replicas.get("t", 0).log.config.retention_ms, 5000)
        self.assertEqual(client.produce(partition=1).base_offset, 1)

    def test_a_part_that_fails(self) -> None:
        """A start that fails half way stops what had started, in reverse, and says why."""
        server = MemoryBroker(listeners=[Listener("x", "nosuch", "tcp:9092")])
        events = self.recorded(server)
        self.assertRaises(ConfigError, server.start)
        self.assertEqual(
            [e for e in events if e.startswith("stop")][-3:], ["stop metastore", "stop logs", "stop ticks"]
        )
        self.assertFalse(server.disks[0].locked)
        self.assertEqual(server.reactor.getDelayedCalls(), [])

    def test_a_stop_while_it_starts(self) -> None:
        """Whatever it waits for just then, nothing is left, and no controller that may be elected yet."""
        started = False
        for turns in itertools.count(0, 5):
            reactor = MemoryReactorClock()
            ensemble = MemoryEnsemble(clock=reactor, latency=0.01)
            server = MemoryBroker(reactor=reactor, ensemble=ensemble)
            starting = server.begin().addErrback(lambda failure: failure.trap(CancelledError))
            reactor.pump([0.005] * turns)
            started = starting.called
            server.stop()
            reactor.advance(0.01)  # What nobody waits for any more may be on its way to the store.
            self.assertTrue(starting.called)
            self.assertFalse(server.disks[0].locked)
            self.assertEqual(server.disks[0].open_files, 0)
            self.assertEqual(ensemble.tree.owned_by(), [])
            self.assertFalse(server.broker.control.controller._running)
            self.assertEqual([str(call) for call in reactor.getDelayedCalls()], [])
            if started:
                break
        self.assertGreater(turns, 50)

    def test_a_disk_in_use(self) -> None:
        """A data directory that another process holds is refused before anything else happens."""
        server = MemoryBroker()
        server.disks[0].locked = True
        error = self.assertRaises(ConfigError, server.start)
        self.assertIn("in use", str(error))

    def test_the_store_fails(self) -> None:
        """A broker whose metadata store is gone says that it cannot go on."""
        server = MemoryBroker().start()
        self.assertEqual(server.lost, [])
        server.now(server.broker.member.store.close())
        self.assertEqual(len(server.lost), 1)
        self.assertIsInstance(server.lost[0].value, StorageError)
        self.assertNotEqual(server.broker.readiness.not_ready(), [])

    def test_waiting_fetches_are_answered_at_the_end(self) -> None:
        """A stop does not wait for long polls: they are answered with what there is."""
        server = MemoryBroker().start()
        server.create("t")
        client = server.connect()
        client.send(fetch_request([("t", 0, 0)], max_wait_ms=600_000), 12)
        stopped = server.broker.stopService()
        for _ in range(20):
            server.reactor.advance(0)
        self.successResultOf(stopped)
        self.assertEqual(len(client.answers()), 1)

    def test_produced_is_answered_at_the_end(self) -> None:
        """A produce that waits for the disk is answered before its connection is closed."""
        server = MemoryBroker({"log.flush.before.ack": "true"}).start()
        server.create("t")
        client = server.connect()
        disk = server.disks[0]
        disk.held.add(IOPool.SYNC)
        client.send(produce_request(a_batch(b"v"), acks=-1), 9)
        self.assertEqual(client.frames(), [])
        stopped: Deferred[None] = server.broker.stopService()
        server.reactor.advance(0.01)
        self.assertEqual(client.frames(), [])
        disk.held.clear()
        for _ in range(50):
            disk.release(IOPool.SYNC)
            server.reactor.advance(0)
        self.successResultOf(stopped)
        (answer,) = client.answers()
        self.assertEqual(answer.responses[0].partition_responses[0].error_code, 0)


class FailingDirectories(SynchronousTestCase):
    """One of two log directories fails while the broker runs."""

    def setUp(self) -> None:
        self.server = MemoryBroker(disks=[MemoryDisk("/good"), MemoryDisk("/bad")]).start()
        self.addCleanup(self.server.close)
        self.server.create("t", 4)
        self.client = self.server.connect()
        self.bad = self.server.disks[1]
        replicas = self.server.broker.replication.replicas
        self.homes = {n: replicas.get("t", n).log.disk for n in range(4)}
        self.assertEqual(len(set(map(id, self.homes.values()))), 2, "all logs are on one disk")
        for n in range(4):
            self.client.produce(a_batch(b"before"), partition=n)

    def check(self) -> None:
        for n, disk in self.homes.items():
            lost = disk is self.bad
            code = ErrorCode.KAFKA_STORAGE_ERROR if lost else 0
            self.assertEqual(self.client.produce(a_batch(b"after"), partition=n).error_code, code)
            answer = self.client.fetch(0, partition=n)
            self.assertEqual((answer.error_code, b"before" in content(answer)), (code, not lost))
        self.assertEqual(self.server.broker.readiness.not_ready(), ["log directory /bad is offline"])
        self.assertEqual(self.server.lost, [])
        self.server.create("later", 2)
        for n in range(2):
            self.assertEqual(self.client.produce(topic="later", partition=n).error_code, 0)

    def test_a_full_disk(self) -> None:
        """A full directory is a reason not to be ready, and a metric; when there is space again, neither."""
        numbers = [n for n, disk in self.homes.items() if disk is self.bad]
        self.bad.faults = lambda op, path: no_space() if op in ("write", "replace") else None
        answer = self.client.produce(a_batch(b"after"), partition=numbers[0])
        self.assertEqual(answer.error_code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.assertEqual(self.server.broker.readiness.not_ready(), ["log directory /bad is full"])
        self.assertEqual(self.metric("logbus_full_log_directories"), [1])
        self.assertEqual(self.metric("logbus_offline_log_directories"), [0])
        self.assertEqual(self.metric("logbus_log_directory_free_bytes"), [1 << 40] * 2)
        self.assertEqual(self.metric("logbus_log_directory_size_bytes"), [1 << 40] * 2)
        self.bad.faults = lambda op, path: None
        self.server.reactor.pump([10, 10])
        self.assertEqual(self.server.broker.readiness.not_ready(), [])
        self.assertEqual(self.metric("logbus_full_log_directories"), [0])

    def test_what_directories_and_listeners_have(self) -> None:
        """The bytes of the logs of each directory, and the connections of each listener, are metrics."""
        logs = [self.server.broker.replication.replicas.get("t", n).log for n in range(4)]
        each = [sum(log.size for log in logs if log.disk is disk) for disk in self.server.disks]
        self.assertEqual(self.metric("logbus_log_directory_log_bytes"), each)
        self.assertGreater(min(each), 0)
        before = sum(self.metric("logbus_listener_connections"))
        self.server.connect()
        self.assertEqual(sum(self.metric("logbus_listener_connections")), before + 1)

    def test_how_long_syncs_take(self) -> None:
        """Each sync that was done counts, by the directory it was in; one that failed does not."""

        def counted() -> dict[str, float]:
            families = {family.name: family for family in self.server.broker.registry.collect()}
            return {
                dict(sample.labels)["directory"]: sample.value
                for sample in families["logbus_log_flush_seconds"].samples
                if sample is not None and sample.name.endswith("_count")
            }

        before = counted()
        logs = [self.server.broker.replication.replicas.get("t", n).log for n in range(4)]
        for log in logs:
            append_as_leader(log, a_batch(b"x"), log.leader_epoch)
            self.successResultOf(log.flush())
        homes = Counter(log.disk.root for log in logs)
        self.assertEqual({root: count - before[root] for root, count in counted().items()}, homes)
        self.bad.faults = lambda op, path: broken() if op == "sync" else None
        hit = next(log for log in logs if log.disk is self.bad)
        append_as_leader(hit, a_batch(b"y"), hit.leader_epoch)
        now = counted()
        self.failureResultOf(hit.flush(), StorageError)
        self.assertEqual(counted(), now)

    def metric(self, name: str) -> list[float]:
        """The values of a metric's series."""
        families = {family.name: family for family in self.server.broker.registry.collect()}
        return [sample.value for sample in families[name].samples if sample is not None]

    def test_a_write_fails(self) -> None:
        """The produce that met the error hears of it; its directory's partitions are offline, the others go on."""
        self.bad.faults = lambda op, path: broken() if op == "write" else None
        hit = next(n for n, disk in self.homes.items() if disk is self.bad)
        self.assertEqual(self.client.produce(partition=hit).error_code, ErrorCode.KAFKA_STORAGE_ERROR)
        self.check()

    def test_a_sync_fails(self) -> None:
        """A sync that fails takes the directory offline: what is on disk is not known any more."""
        hit = next(n for n, disk in self.homes.items() if disk is self.bad)
        self.bad.faults = lambda op, path: broken() if op == "sync" else None
        self.failureResultOf(self.server.broker.replication.replicas.get("t", hit).log.flush(), StorageError)
        self.check()

    def test_metadata_tells(self) -> None:
        """Clients learn from Metadata that partitions of the failed directory have no leader."""
        self.bad.fail(StorageError("gone"))
        self.server.reactor.advance(0)
        topic = self.client.metadata("t").topics[0]
        for partition in topic.partitions:
            lost = self.homes[partition.partition_index] is self.bad
            self.assertEqual(partition.error_code, ErrorCode.LEADER_NOT_AVAILABLE if lost else 0)


class FullDisks(SynchronousTestCase):
    """A full disk is an error for the client only."""

    def test_and_room_again(self) -> None:
        """Refused, nothing of the batch in the log, readers served; and taken again once there is room."""
        server = MemoryBroker().start()
        self.addCleanup(server.close)
        server.create("t")
        client = server.connect()
        client.produce(a_batch(b"first"))
        disk = server.disks[0]
        before = content(client.fetch())
        disk.faults = lambda op, path: no_space() if op == "write" else None
        for _ in range(3):
            answer = client.produce(a_batch(b"x" * 1000))
            self.assertEqual((answer.error_code, answer.base_offset), (ErrorCode.KAFKA_STORAGE_ERROR, -1))
        self.assertEqual(content(client.fetch()), before)
        self.assertIsNone(disk.failure)
        self.assertEqual(server.broker.readiness.not_ready(), ["log directory /memory is full"])
        disk.faults = lambda op, path: None
        self.assertEqual(client.produce(a_batch(b"second")).base_offset, 1)
        self.assertIn(b"second", content(client.fetch(1)))

    def test_no_room_for_a_topic(self) -> None:
        """A topic that finds no room is an error of its creation, not of the broker."""
        server = MemoryBroker().start()
        self.addCleanup(server.close)
        server.disks[0].faults = lambda op, path: no_space() if op in ("make", "create", "replace") else None
        answer = server.connect().create("t").topics[0]
        self.assertEqual(answer.error_code, ErrorCode.KAFKA_STORAGE_ERROR)
        server.disks[0].faults = lambda op, path: None
        server.create("u")
        self.assertEqual(server.connect().produce(topic="u").error_code, 0)


class Plugins(SynchronousTestCase):
    """The interface for plugins."""

    def setUp(self) -> None:
        self.server = MemoryBroker().start()
        self.addCleanup(self.server.close)

    def test_append_and_read(self) -> None:
        """Appending makes the topic, takes its partitions in turn, and reads back."""
        broker = self.server.broker.plugin_services
        self.server.create("t", 2)
        places = [self.server.now(broker.append("t", [(b"k", b"%d" % i)])) for i in range(3)]
        self.assertEqual(places, [(0, 0), (1, 0), (0, 1)])
        self.assertEqual([record.value for record in broker.read("t", 0, 0)], [b"0", b"2"])
        self.assertEqual(broker.read("t", 0, 2), [])
        self.assertEqual(self.server.now(broker.append("made", [(None, b"v")], acks=-1)), (0, 0))
        self.assertEqual(dict(broker.topics()), {"t": 2, "made": 1})

    def test_aborted_records(self) -> None:
        """Records of transactions are read once they are committed, and never if they are aborted."""
        broker = self.server.broker.plugin_services
        self.server.create("t")
        replica = self.server.broker.replication.replicas.leader("t", 0)
        for producer_id, value in ((1, b"gone"), (2, b"kept")):
            records = [Record(0, 0, None, value)]
            batch = encode_batch(
                records, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
            )
            replica.append(batch, 0)
        self.assertEqual(broker.read("t", 0, 0), [])
        replica.append_marker(1, 0, Marker(ControlType.ABORT, 0), 0, 1)
        self.assertEqual(broker.read("t", 0, 0), [])
        replica.append_marker(2, 0, Marker(ControlType.COMMIT, 0), 0, 1)
        self.assertEqual([record.value for record in broker.read("t", 0, 0)], [b"kept"])

    def test_read_to_the_end(self) -> None:
        """Repeated fetches reach the end, also past hidden records."""
        broker = self.server.broker.plugin_services
        self.server.create("t")
        replica = self.server.broker.replication.replicas.leader("t", 0)
        batch = encode_batch(
            [Record(0, 0, None, b"gone")], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
        )
        replica.append(batch, 0)
        self.assertEqual(broker.fetch("t", 0, 0), ([], 0))
        replica.append_marker(1, 0, Marker(ControlType.ABORT, 0), 0, 1)
        self.assertEqual(broker.fetch("t", 0, 0), ([], 2))
        self.server.now(broker.append("t", [(None, b"kept")]))
        records, next_offset = broker.fetch("t", 0, 2)
        self.assertEqual(([record.value for record in records], next_offset), ([b"kept"], 3))
        self.assertEqual(broker.fetch("t", 0, 3), ([], 3))
        self.assertEqual(self.server.now(broker.settled("t", 0)), (0, 3))

    def test_who_leads(self) -> None:
        """A plugin can ask who leads a partition, and who lives."""
        self.server.create("t")
        self.assertEqual(self.server.broker.plugin_services.leadership("t", 0)[:2], (0, 0))
        self.assertEqual(self.server.broker.plugin_services.brokers(), [0])
        error = self.assertRaises(ApiError, self.server.broker.plugin_services.leadership, "none", 0)
        self.assertEqual(error.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_errors(self) -> None:
        """Errors carry Kafka's codes."""
        broker = self.server.broker.plugin_services
        error = self.assertRaises(ApiError, broker.read, "none", 0, 0)
        self.assertEqual(error.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        error = self.assertRaises(ApiError, self.server.now, broker.append("bad/name", [(None, b"v")]))
        self.assertEqual(error.code, ErrorCode.INVALID_TOPIC_EXCEPTION)
        error = self.assertRaises(ApiError, self.server.now, broker.append("t", [(None, b"v")], partition=7))
        self.assertEqual(error.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
