"""
The workload of a share group: producers, and members that come and go, and share what these send.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.errors import LogbusError
from logbus.testing.simulation.checks.history import Anomaly
from logbus.testing.simulation.checks.share_history import ShareHistory
from logbus.testing.simulation.settings import Settings
from logbus.testing.simulation.workloads.client_router import ClientRouter
from logbus.testing.simulation.workloads.cluster_client import ClusterClient, Unavailable, name_of
from logbus.testing.simulation.workloads.consumer import WorkloadContext
from logbus.testing.simulation.workloads.producer import Producer
from logbus.testing.simulation.workloads.share_member import ShareMember
from logbus.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)

JOBS, GROUP_ID = "jobs", "workers"
MEMBERS = 3
LIFE_S = 25.0
"""Of a member, on average, in seconds."""
_GROUP_CONFIG = 32


@define(eq=False)
class SharesWorkload:
    """
    The workload.

    :ivar job: the context of producers and members; ``history``: of the group.
    :ivar another_view: creates the cluster client of a client of a topic.
    :ivar generator: creates a random generator for each client.
    :ivar found: called with anomalies that are not in a history: kind and description.
    :ivar failed: called with errors in a client.
    """

    settings: Settings
    job: WorkloadContext
    another_view: Callable[[str], ClusterClient]
    generator: Callable[[], Random]
    found: Callable[[str, str], object]
    failed: Callable[[Failure], object]
    history: ShareHistory = field(factory=ShareHistory, init=False)
    _members: list[ShareMember] = field(factory=list, init=False)
    _count: int = field(default=0, init=False)

    def start(self) -> None:
        """Start all clients."""
        settings, count = self.settings, 2 * self.settings.partitions
        for index in range(count):
            self._run(
                Producer(
                    f"{JOBS} producer {index}",
                    self.another_view(JOBS),
                    index % settings.partitions,
                    self.job,
                    count / settings.rate,
                    idempotent=index < settings.partitions,
                    random=self.generator(),
                    careless=0.0 if index < settings.partitions else 0.3,
                ).run()
            )
        self._run(self._share(self.generator()))

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        Deferred.fromCoroutine(work).addErrback(self.failed)

    async def _share(self, random: Random) -> None:
        """Have the group begin with the first record, and its members come and go."""
        view = self.another_view(JOBS)
        await self._begin_early(view)
        for _ in range(MEMBERS):
            self._join()
        while not self.job.over:
            await view.sleep(random.expovariate(MEMBERS / LIFE_S))
            if not self.job.over:
                # It ends in order, or is just gone while its session and its connections last.
                self._members.pop(random.randrange(MEMBERS)).stop(leaves=random.random() < 0.5)
                self._join()

    async def _begin_early(self, view: ClusterClient) -> None:
        config = IncrementalAlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        resource = IncrementalAlterConfigsResource(
            resource_type=_GROUP_CONFIG, resource_name=GROUP_ID, configs=[config]
        )
        while True:
            try:
                channel = await view.channel(view.random.choice(view.brokers), "admin")
                response = await channel.request(
                    IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1
                )
            except (LogbusError, Unavailable) as error:
                self.job.errors[type(error).__name__] += 1
            else:
                (code,) = [each.error_code for each in response.responses]
                if not code:
                    return
                self.job.errors[name_of(code)] += 1
            await view.sleep(0.2)

    def _join(self) -> None:
        self._count += 1
        router = ClientRouter(self.another_view(JOBS), "group")
        member = ShareMember(f"member {self._count}", GROUP_ID, router, self.job, self.history, self.generator())
        self._members.append(member)
        for work in member.work():
            self._run(work)

    # The end.

    def over(self) -> None:
        """No more is to be sent; members stay, and accept everything."""
        self.job.over = True

    def probe(self, seconds: float, wait: Callable[[Callable[[], bool], float], bool]) -> None:
        """
        After all faults: wait until members have accepted all that producers were told of, also what they send now.

        :param wait: advances time until a condition is true, for at most a number of seconds.
        """
        written: set[int] = set()
        for index in range(self.settings.partitions):
            view = self.another_view(JOBS)
            probe = Producer(f"{JOBS} probe {index}", view, index, self.job, 1.0, idempotent=True, random=Random(index))
            self._run(self._probe(probe, written))
        sends = self.job.history.sends
        wait(lambda: len(written) == self.settings.partitions and not self.history.unfinished(sends), seconds)
        if len(written) < self.settings.partitions:
            self.found("not-writable", f"partitions {sorted(written)} of {JOBS} only took a write after all was mended")

    async def _probe(self, probe: Producer, written: set[int]) -> None:
        while not await probe.send():
            await probe.view.sleep(0.2)
        written.add(probe.partition)

    def read_again(self, seconds: float, wait: Callable[[Callable[[], bool], float], bool]) -> None:
        """Wait until all is accepted that producers were told of meanwhile; then stop."""
        wait(lambda: not self.history.unfinished(self.job.history.sends), seconds)
        for member in self._members:
            member.stop()

    def anomalies(self) -> Iterator[Anomaly]:
        """The anomalies of the histories."""
        for each in (*self.job.strange, *self.history.check(self.job.history.sends)):
            yield Anomaly(each.kind, f"{JOBS}: {each.what}", each.partition, each.time)
