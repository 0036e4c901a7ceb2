"""What a simulated application is given: where the brokers are, time, randomness, and what it can say and expect."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred

from logbus.client.aio.awaiting import outcome
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.consumer.partition_position import Isolation
from logbus.client.producer.producer_record import RecordMetadata
from logbus.model import TopicPartition
from logbus.records.batch import Headers
from logbus.testing.simulation.environment.node_reactor import NodeReactor

if TYPE_CHECKING:
    from logbus.testing.simulation.application.application_process import ApplicationProcess

Record = ConsumerRecord[bytes | None, bytes | None]


class BaseSimulation:
    """
    What both kinds of simulations have.

    :ivar bootstrap: the addresses of the brokers, for any client.
    :ivar seed: of the run.
    :ivar instance: the number of this process, from 1 on; 0: of the input and the checks.
    :ivar life: 1 at the first start of this instance, 2 at the next, …
    :ivar random: a source of randomness, seeded.
    :ivar database: a dict that all processes share, and that outlives them: a stand-in for what the application keeps
        elsewhere. A change of it is there at once, and cannot fail.
    """

    def __init__(self, process: ApplicationProcess) -> None:
        self._process = process
        self.bootstrap = process.bootstrap
        self.seed = process.story.seed
        self.instance = process.number
        self.life = process.lives
        self.random: Random = process.world.generator()
        self.database: dict[Any, Any] = process.story.database

    @property
    def now(self) -> float:
        """Seconds since the application was first started."""
        return self._process.story.now

    @property
    def mended(self) -> bool:
        """Whether all faults have ended."""
        return self._process.story.mended

    def log(self, line: object) -> None:
        """Add a line to the history that is shown if the seed fails."""
        self._process.tell(str(line))

    def expect(self, condition: object, what: object = "an expectation was not met") -> None:
        """Require that something holds now: otherwise the seed fails with this text, and the run ends."""
        if not condition:
            self._process.story.violated("expectation", f"{self._process.name}: {what}")


class Simulation(BaseSimulation):
    """The simulation of an application on asyncio, for its coroutine and all that it calls."""

    async def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """
        Write a record exactly once, for as long as it takes.

        :param partition: default: by the key, or any.
        """
        return await outcome(self._process.toolbox.produce(topic, value, key, partition, headers))

    async def read(self, topic: str, isolation_level: Isolation = "read_committed") -> list[Record]:
        """All records of a topic, by partition and offset."""
        return await outcome(self._process.toolbox.read(topic, isolation_level))

    async def committed(self, group_id: str) -> Mapping[TopicPartition, int]:
        """The offsets that a group has committed."""
        return await outcome(self._process.toolbox.committed(group_id))


class TwistedSimulation(BaseSimulation):
    """
    The simulation of an application on Twisted.

    :ivar reactor: the reactor for everything that the application does.
    """

    def __init__(self, process: ApplicationProcess) -> None:
        super().__init__(process)
        self.reactor: NodeReactor = process.reactor

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
    ) -> Deferred[RecordMetadata]:
        """
        Write a record exactly once, for as long as it takes.

        :param partition: default: by the key, or any.
        """
        return self._process.toolbox.produce(topic, value, key, partition, headers)

    def read(self, topic: str, isolation_level: Isolation = "read_committed") -> Deferred[list[Record]]:
        """All records of a topic, by partition and offset."""
        return self._process.toolbox.read(topic, isolation_level)

    def committed(self, group_id: str) -> Deferred[Mapping[TopicPartition, int]]:
        """The offsets that a group has committed."""
        return self._process.toolbox.committed(group_id)
