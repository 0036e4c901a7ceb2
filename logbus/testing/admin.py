"""A small admin client whose methods wait for what they ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from logbus.coroutines import sleep
from logbus.errors import ApiError, ErrorCode
from logbus.testing.inspector import Inspector
from logbus.testing.settings import Setting, as_texts

if TYPE_CHECKING:
    # By its whole name: the documentation has another AdminClient, for asyncio.
    import logbus.client
    from logbus.client import AdminClient, Cluster, GroupDescription
    from logbus.model import TopicPartition

T = TypeVar("T")

POLL_SECONDS = 0.01


class Admin:
    """
    Administers a broker or a cluster of a test.

    :param inspector: gives the client, as it is now: brokers may have been started anew.
    :param timeout: seconds for each call.

    Errors of brokers are raised as :class:`~logbus.errors.ApiError`, whose message says what is wrong.
    """

    def __init__(self, inspector: Callable[[], Inspector], timeout: float) -> None:
        self._inspector = inspector
        self._timeout = timeout

    def run(self, ask: Callable[[logbus.client.AdminClient], Awaitable[T]]) -> T:
        """
        What a method of :class:`logbus.client.AdminClient` gives: ``run(lambda client: client.describe_cluster())``.
        """

        async def asking(cluster: Any) -> T:
            from logbus.client import AdminClient

            return await ask(AdminClient(cluster, timeout=self._timeout))

        return self._inspector().run(asking, self._timeout)

    def create_topic(self, name: str, partitions: int = -1, replication_factor: int = -1, **settings: Setting) -> None:
        """
        Create a topic, and wait until brokers know its leaders.

        :param partitions: −1: as many as ``num.partitions`` says.
        :param settings: of the topic, in Python's spelling: ``cleanup_policy="compact"``; ``**{"cleanup.policy": …}``.
        """
        from logbus.client import NewTopic

        new = NewTopic(name, partitions, replication_factor, as_texts(settings))
        self._one(name, lambda client: client.create_topics([new]))
        self._inspector().run(lambda cluster: _led(cluster, name), self._timeout)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self._one(name, lambda client: client.delete_topics([name]))

    def topics(self) -> list[str]:
        """The names of all topics but internal ones."""
        return [topic.name for topic in self.run(lambda client: client.list_topics())]

    def partitions(self, topic: str) -> int:
        """The number of a topic's partitions."""
        return len(self._one(topic, lambda client: client.describe_topics([topic])).partitions)

    def add_partitions(self, topic: str, count: int) -> None:
        """
        Add partitions to a topic.

        :param count: how many it has afterwards.
        """
        self._one(topic, lambda client: client.create_partitions({topic: count}))

    def delete_records(self, topic: str, partition: int = 0, before: int = -1) -> int:
        """Delete the records of a partition before an offset (−1: all); the first offset that is left."""
        from logbus.model import TopicPartition

        which = TopicPartition(topic, partition)
        return int(self._one(which, lambda client: client.delete_records({which: before})))

    def topic_settings(self, topic: str) -> dict[str, str | None]:
        """All settings of a topic, defaults among them."""
        from logbus.client.admin.config_admin import Resource, ResourceType

        resource = Resource(ResourceType.TOPIC, topic)
        found = self._one(resource, lambda client: client.describe_configs([resource]))
        return {entry.name: entry.value for entry in found}

    def set_topic(self, topic: str, **settings: Setting) -> None:
        """Change settings of a topic, as :meth:`create_topic` takes them."""
        from logbus.client.admin.config_admin import Resource, ResourceType

        resource = Resource(ResourceType.TOPIC, topic)
        changes: Mapping[str, str | None] = as_texts(settings)
        self._one(resource, lambda client: client.alter_configs({resource: changes}))

    def groups(self) -> list[str]:
        """The ids of all groups."""
        return [group.group_id for group in self.run(lambda client: client.list_groups())]

    def group(self, group_id: str) -> GroupDescription:
        """A group with its members."""
        found: GroupDescription = self._one(group_id, lambda client: client.describe_groups([group_id]))
        return found

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """The offsets that a group has committed."""
        found = self._one(group_id, lambda client: client.list_group_offsets([group_id]))
        return {which: answer.offset for which, answer in found.items() if not isinstance(answer, ApiError)}

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its committed offsets."""
        self._one(group_id, lambda client: client.delete_groups([group_id]))

    def _one(self, key: object, ask: Callable[[AdminClient], Awaitable[Mapping[Any, Any]]]) -> Any:
        """The answer about one thing; raised, if it is an error."""
        answer = self.run(ask)[key]
        if isinstance(answer, ApiError):
            raise answer
        return answer


async def _led(cluster: Cluster, name: str) -> None:
    """Wait until a topic is known with a leader for each partition."""
    while True:
        try:
            cluster.forget(name)
            found = await cluster.topic(name)
            if all(each.leader >= 0 for each in found.partitions.values()):
                return
        except ApiError as e:
            if e.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        await sleep(cluster.reactor, POLL_SECONDS)
