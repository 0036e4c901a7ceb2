"""The operator of a simulation: elections, reassignments, config changes, topics that come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define

from logbus.errors import LogbusError
from logbus.testing.simulation.workloads.cluster_client import ClusterClient, Unavailable
from logbus.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from logbus.wire.messages.elections import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from logbus.wire.messages.metadata import MetadataRequest
from logbus.wire.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest, DeleteTopicState

_TRIES = 5
_TOPIC = 2


@define(eq=False)
class ClusterOperator:
    """
    Sends administrative requests; each method returns whether a broker carried it out.

    :ivar partitions: of the topic; ``replication``: its factor.
    """

    view: ClusterClient
    partitions: int
    replication: int

    async def _ask(self, request: Any) -> Any:
        """The answer of any broker; None if none answered."""
        for _ in range(_TRIES):
            try:
                channel = await self.view.channel(self.view.random.choice(self.view.brokers), "operator")
                return await channel.request(request)
            except (LogbusError, Unavailable):
                await self.view.sleep(0.3)
        return None

    async def elect(self) -> bool:
        """Give leadership back to the preferred replicas."""
        answer = await self._ask(ElectLeadersRequest(topic_partitions=None, timeout_ms=5000))
        if answer is None:
            return False
        results = [each for topic in answer.replica_election_results for each in topic.partition_result]
        return any(not each.error_code for each in results)

    async def reassign(self, order: Sequence[int]) -> bool:
        """Assign other replicas, or another order: each partition begins with the next of ``order``."""
        partitions = []
        for index in range(self.partitions):
            turned = [order[(index + i) % len(order)] for i in range(self.replication)]
            partitions.append(ReassignablePartition(partition_index=index, replicas=turned))
        topic = ReassignableTopic(name=self.view.topic, partitions=partitions)
        answer = await self._ask(AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[topic]))
        if answer is None or answer.error_code:
            return False
        return any(not each.error_code for topic in answer.responses for each in topic.partitions)

    async def move_all(self, by: int) -> bool:
        """Have each partition of every topic move on to the brokers whose places in the list are ``by`` further on."""
        found = await self._ask(MetadataRequest(topics=None, allow_auto_topic_creation=False))
        if found is None:
            return False
        brokers = self.view.brokers
        turned = {broker: brokers[(index + by) % len(brokers)] for index, broker in enumerate(brokers)}
        topics = [
            ReassignableTopic(
                name=topic.name,
                partitions=[
                    ReassignablePartition(
                        partition_index=each.partition_index, replicas=[turned[one] for one in each.replica_nodes]
                    )
                    for each in topic.partitions
                ],
            )
            for topic in found.topics
            if topic.name is not None
        ]
        answer = await self._ask(AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=topics))
        if answer is None or answer.error_code:
            return False
        return any(not each.error_code for topic in answer.responses for each in topic.partitions)

    async def configure(self, name: str, value: str) -> bool:
        """Change a config of the topic."""
        config = IncrementalAlterableConfig(name=name, config_operation=0, value=value)
        resource = IncrementalAlterConfigsResource(
            resource_type=_TOPIC, resource_name=self.view.topic, configs=[config]
        )
        for _ in range(_TRIES):
            answer = await self._ask(IncrementalAlterConfigsRequest(resources=[resource]))
            if answer is not None and not answer.responses[0].error_code:
                return True
            await self.view.sleep(1.0)  # There may be no controller for a while.
        return False

    async def come_and_go(self, name: str, seconds: float) -> bool:
        """Create a topic, and delete it later."""
        topic = CreatableTopic(
            name=name, num_partitions=3, replication_factor=self.replication, assignments=[], configs=[]
        )
        answer = await self._ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        created = answer is not None and not answer.topics[0].error_code
        await self.view.sleep(seconds)
        await self._ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=5000))
        return created
