"""One run of a simulation: a cluster, clients and faults, then the checks."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import globalLogPublisher
from twisted.python.failure import Failure

from logbus.errors import ErrorCode, LogbusError
from logbus.model import OFFSETS_TOPIC, REMOTE_LOG_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTIONS_TOPIC
from logbus.testing.simulation.bitflips import BitFlips
from logbus.testing.simulation.checks.durability_oracle import DurabilityOracle
from logbus.testing.simulation.checks.error_log import ErrorLog
from logbus.testing.simulation.checks.history import Anomaly, History
from logbus.testing.simulation.checks.replica_inspector import ReplicaInspector
from logbus.testing.simulation.environment.broker_node import BrokerNode
from logbus.testing.simulation.environment.garbage_collector_watch import GarbageCollectorWatch
from logbus.testing.simulation.environment.node_reactor import NodeReactor
from logbus.testing.simulation.environment.simulated_cluster import SimulatedCluster
from logbus.testing.simulation.environment.virtual_clock import VirtualClock
from logbus.testing.simulation.nemesis import Nemesis
from logbus.testing.simulation.schedule import Fault, draw_schedule
from logbus.testing.simulation.settings import RECORDS, SHARES, TIERED, TRANSACTIONS, Settings
from logbus.testing.simulation.totals import RunOutcome
from logbus.testing.simulation.workloads.cluster_client import ClusterClient, Unavailable, name_of
from logbus.testing.simulation.workloads.cluster_operator import ClusterOperator
from logbus.testing.simulation.workloads.consumer import DAMAGED, WorkloadContext
from logbus.testing.simulation.workloads.records_workload import TOPIC, RecordsWorkload
from logbus.testing.simulation.workloads.shares_workload import JOBS, SharesWorkload
from logbus.testing.simulation.workloads.tiered_workload import ARCHIVE, EXPIRING, TieredWorkload, topic_configs
from logbus.testing.simulation.workloads.transactions_workload import NEVER_ENDED, TOPICS, TransactionsWorkload
from logbus.wire.messages.topics import CreatableTopic, CreateTopicsRequest

START_S = 60.0
HEAL_S = 30.0
"""Seconds after the end of the last fault in which everything must work again."""
CLIENT_HOST = "10.0.1.1"

_OF_TRANSACTIONS = (*TOPICS, TRANSACTIONS_TOPIC, OFFSETS_TOPIC)
_OF_TIERED = (ARCHIVE, EXPIRING, REMOTE_LOG_METADATA_TOPIC)
_OF_SHARES = (JOBS, SHARE_GROUP_STATE_TOPIC, OFFSETS_TOPIC)


@define(kw_only=True)
class Outcome(RunOutcome):
    """The outcome of a run, and what its clients saw."""

    history: History


@define(eq=False)
class Run:
    """A run from a seed; its schedule of faults can be replaced."""

    settings: Settings
    seed: int
    schedule: Sequence[Fault] | None = None
    clock: VirtualClock = field(factory=VirtualClock, init=False)
    anomalies: list[Anomaly] = field(factory=list, init=False)
    _trace: int = field(default=0, init=False)
    _clients: NodeReactor = field(init=False)
    cluster: SimulatedCluster = field(init=False)
    inspector: ReplicaInspector = field(factory=ReplicaInspector, init=False)
    job: WorkloadContext = field(init=False)
    _records: RecordsWorkload | None = field(default=None, init=False)
    _transactions: TransactionsWorkload | None = field(default=None, init=False)
    _shares: SharesWorkload | None = field(default=None, init=False)
    _tiered: TieredWorkload | None = field(default=None, init=False)
    _losses: list[DurabilityOracle] = field(factory=list, init=False)
    _collector: GarbageCollectorWatch = field(factory=GarbageCollectorWatch, init=False)
    _flips: BitFlips = field(init=False)

    def run(self) -> Outcome:
        """Run it, from the start of the brokers to the last check."""
        began = time.perf_counter()
        random = Random(self.seed)
        self.cluster = SimulatedCluster(self.settings, self.clock, random, self._note)
        observer = ErrorLog(self._collector, lambda traceback: self._found("error-logged", traceback))
        with self._collector:
            globalLogPublisher.addObserver(observer)
            try:
                outcome = self._run(random)
            finally:
                globalLogPublisher.removeObserver(observer)
                self.cluster.end()
        outcome.real_seconds = time.perf_counter() - began
        return outcome

    def _run(self, random: Random) -> Outcome:
        settings, clock, cluster = self.settings, self.clock, self.cluster
        world = cluster.world
        watched = (
            TOPIC,
            *(_OF_TRANSACTIONS if TRANSACTIONS in settings.workloads else ()),
            *(_OF_SHARES if SHARES in settings.workloads else ()),
            *(_OF_TIERED if TIERED in settings.workloads else ()),
        )
        for topic in dict.fromkeys(watched):
            self._losses.append(DurabilityOracle(topic, world.ensemble.tree, lambda: clock.now))
        world.ensemble.clients += self._losses
        if world.worker_store is not None:
            world.worker_store.watch(self._losses)
            world.worker_store.start()
        drawn = draw_schedule(
            Random(random.getrandbits(64)), cluster.broker_ids, settings.seconds, settings.kinds, settings.between
        )
        schedule = drawn if self.schedule is None else list(self.schedule)
        cluster.start(self.inspector.watch, self._power_went)
        self.job = WorkloadContext(History(), cluster.wall_clock)
        self._clients = cluster.client(CLIENT_HOST)
        operator = ClusterOperator(
            self._view(self._topics[-1] if self._topics else TOPIC),
            settings.partitions,
            settings.replication,
        )
        hosts = [CLIENT_HOST]
        if TRANSACTIONS in settings.workloads:
            self._transactions = TransactionsWorkload(settings, world, self._view, self._found, self._client_failed)
            hosts += self._transactions.hosts
        if world.remote_objects is not None:
            self._tiered = TieredWorkload(
                settings,
                world.remote_objects,
                cluster.nodes,
                WorkloadContext(History(), cluster.wall_clock),
                WorkloadContext(History(), cluster.wall_clock),
                self._view,
                world.generator,
                self._found,
                self._client_failed,
            )
        nemesis = Nemesis(
            world,
            cluster.nodes,
            hosts,
            self._note,
            operator,
            self._losses,
            self._transactions,
            tiered=self._tiered,
        )
        self._flips = nemesis.flips
        if self._begin():
            start = clock.now
            for fault in schedule:
                clock.at(start + fault.at, None, nemesis.do, fault)
            for _ in range(int(settings.seconds)):
                clock.run_until(clock.now + 1)
                self.inspector.check(list(cluster.nodes.values()))
            for each in self._works:
                each.over()
            nemesis.mend_all()
            self._heal()
        return self._outcome(schedule, nemesis)

    # The story.

    @property
    def _topics(self) -> list[str]:
        """Those that clients write to."""
        of = {RECORDS: (TOPIC,), SHARES: (JOBS,), TRANSACTIONS: TOPICS[::-1], TIERED: (EXPIRING, ARCHIVE)}
        return [topic for workload, topics in of.items() if workload in self.settings.workloads for topic in topics]

    def _view(self, topic: str) -> ClusterClient:
        return ClusterClient(self._clients, self.cluster.addresses, topic, self.cluster.world.generator())

    def _begin(self) -> bool:
        """Wait for the brokers, create the topics, and start the clients; return whether that succeeded."""
        settings = self.settings
        if missing := self.cluster.wait_until_ready(START_S):
            self._found("no-start", f"brokers {missing} were not ready {START_S:g} s after the start")
            return False
        view = self._view(TOPIC)
        created: list[Any] = []
        Deferred.fromCoroutine(self._create(view)).addBoth(created.append)
        if not self.cluster.wait(lambda: bool(created), START_S) or isinstance(created[0], Failure):
            self._found("no-topic", f"the topics could not be created: {created}")
            return False
        if RECORDS in settings.workloads:
            self._records = RecordsWorkload(
                settings, self.job, view, self._view, self.cluster.world.generator, self._found, self._client_failed
            )
            self._records.start()
        if self._transactions is not None:
            self._transactions.start()
        if SHARES in settings.workloads:
            self._shares = SharesWorkload(
                settings,
                WorkloadContext(History(), self.cluster.wall_clock),
                self._view,
                self.cluster.world.generator,
                self._found,
                self._client_failed,
            )
            self._shares.start()
        if self._tiered is not None:
            self._tiered.start()
        return True

    async def _create(self, view: ClusterClient) -> None:
        settings = self.settings
        names = set(self._topics)
        while names:
            broker_id = view.random.choice(sorted(self.cluster.nodes))
            topics = [
                CreatableTopic(
                    name=name,
                    num_partitions=settings.partitions,
                    replication_factor=settings.replication,
                    assignments=[],
                    configs=topic_configs(name),
                )
                for name in sorted(names)
            ]
            try:
                channel = await view.channel(broker_id, "admin")
                response = await channel.request(CreateTopicsRequest(topics=topics, timeout_ms=10_000))
            except (LogbusError, Unavailable):
                await view.sleep(0.5)
                continue
            for topic in response.topics:
                if topic.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    names.discard(topic.name)
                else:
                    self.job.errors[name_of(topic.error_code)] += 1
            if names:
                await view.sleep(0.5)

    def _heal(self) -> None:
        """After all faults: everything must work again in time, and all acknowledged records must be readable."""
        mended = self.clock.now
        nodes = list(self.cluster.nodes.values())
        if missing := self.cluster.wait_until_ready(HEAL_S):
            self._found("not-back", f"brokers {missing} were not ready {HEAL_S:g} s after all was mended")
        if self._flips.count:
            # First: nothing looks for damage in the segment that is written to, which holds readers up for as long.
            self._repair(nodes)
            mended = self.clock.now
        for work in self._works:
            work.probe(max(mended + HEAL_S - self.clock.now, 1.0), self.cluster.wait)
        # For as long as a producer may still retry.
        self.clock.run_until(self.clock.now + 12)
        for work in self._works:
            work.read_again(HEAL_S, self.cluster.wait)
        self.inspector.check(nodes)
        self.inspector.compare(nodes)

    def _repair(self, nodes: list[BrokerNode]) -> None:
        """Have all segments checked: undetected damage must be found and repaired in time."""
        for node in nodes:
            logs = node.broker.logs
            Deferred.fromCoroutine(logs.scrubber.scrub_all()).addErrback(self._client_failed)
            for log in logs:
                # Rounds are for closed segments; in the one that is written to readers find it.
                logs.scrubber.suspect(log, log.segments[-1])

        def is_repaired() -> bool:
            self._flips.find_repaired()
            return not self._flips.open and not any(node.broker.logs.damage.count for node in nodes)

        if not self.cluster.wait(is_repaired, HEAL_S):
            what = [f"{each.partition} on broker {each.node.broker_id}" for each in self._flips.open]
            known = {node.broker_id: node.broker.logs.damage.count for node in nodes}
            self._found("not-repaired", f"{what}; damaged segments that brokers know of: {known}")

    @property
    def _works(self) -> list[RecordsWorkload | TransactionsWorkload | SharesWorkload | TieredWorkload]:
        works = (self._records, self._transactions, self._shares, self._tiered)
        return [work for work in works if work is not None]

    # Observations.

    def _note(self, line: str) -> None:
        self._trace = zlib.crc32(f"{self.clock.now:.9f} {line}".encode(), self._trace)

    def _found(self, kind: str, what: str) -> None:
        self.anomalies.append(Anomaly(kind, what))

    def _client_failed(self, failure: Failure) -> None:
        self._found("client", f"a client failed: {failure.getTraceback()}")

    def _power_went(self, broker_id: int) -> None:
        for each in self._losses:
            each.power_lost(broker_id)

    def _outcome(self, schedule: list[Fault], nemesis: Nemesis) -> Outcome:
        history = self.job.history
        strange = self.job.strange
        readers = self._records.readers if self._records is not None else frozenset()
        losses = self._losses[0].at if self._may_lose else {}
        unexcused = history.without_losses(readers, losses, acknowledged=not self.settings.flush)
        found = [each for each in (*strange, *self.inspector.found) if not self._follows(each, losses)]
        anomalies = [*self.anomalies, *found, *unexcused.check(readers=readers)]
        work = self._transactions
        if work is not None:
            lost = self._may_lose and any(each.at for each in self._losses)
            if self.settings.flush or not lost:
                anomalies += work.anomalies(lost=lost)
            else:
                # Where everything may be lost a decision may be, which tears its transaction; or that there was one.
                anomalies = [each for each in anomalies if each.kind not in NEVER_ENDED]
            for line in work.outcomes:
                self._note(line)
            self.job.errors.update(work.errors)
        sends = history.sends
        if self._shares is not None:
            # Where everything may be lost, so may what members were told.
            if self.settings.flush or not any(each.at for each in self._losses):
                anomalies += self._shares.anomalies()
            sends = [*sends, *self._shares.job.history.sends]
            for delivery in self._shares.history.deliveries:
                self._note(f"{delivery}")
            self.job.errors.update(self._shares.job.errors)
        if self._tiered is not None:
            at = {each.topic: each.at for each in self._losses}
            anomalies += self._tiered.anomalies(at, may_lose=self._may_lose, flush=self.settings.flush)
            sends = [*sends, *self._tiered.job.history.sends, *self._tiered.expiring.history.sends]
            self.job.errors.update(self._tiered.job.errors)
        if self.job.errors[DAMAGED] and not self._flips.count:
            anomalies.append(Anomaly("damaged-read", "readers were given damaged batches, and no bit had flipped"))
        for node in self.cluster.nodes.values():
            anomalies += [Anomaly("gave-up", what) for what in node.trouble]
        for send in sends:
            self._note(f"{send}")
        return Outcome(
            seed=self.seed,
            schedule=schedule,
            anomalies=anomalies,
            acknowledged=sum(send.outcome == "ok" for send in sends),
            sent=len(sends),
            committed=work.committed if work is not None else 0,
            begun=work.begun if work is not None else 0,
            effects=nemesis.log.effects,
            moot=nemesis.log.moot,
            errors=self.job.errors,
            trace=self._trace,
            virtual_seconds=self.clock.now,
            events=self.clock.events,
            worst_lag=history.worst_lag(readers),
            told=nemesis.log.told,
            history=history,
            phantoms=len(unexcused.phantoms),
        )

    @property
    def _may_lose(self) -> bool:
        """
        Whether records that were read may be lost when all members of a partition lose power.

        Acknowledged records are synced if the topic flushes, and records that were read are synced by two replicas; a
        leader that may be the only one in sync shows unsynced records.
        """
        return not self.settings.flush or self.settings.min_insync == 1

    def _follows(self, anomaly: Anomaly, losses: Mapping[int, Sequence[float]]) -> bool:
        """Whether an anomaly is the consequence of an allowed loss."""
        kinds = ("out-of-range",) if self.settings.flush else ("out-of-range", "lost-producer", "committed-cut")
        times = losses.get(anomaly.partition, ())
        return anomaly.kind in kinds and any(time <= anomaly.time for time in times)
