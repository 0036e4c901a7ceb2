"""Routes of topics, which a broker creates and deletes when it is asked by an admin client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define
from twisted.internet.defer import Deferred

from logbus.admin.json_schema import array, integer, mapping, object_schema, string
from logbus.admin.routing import ViewRequest, route
from logbus.testing.server.server_routes import FAILURES, TOKEN, ControlledBrokers, as_problem

if TYPE_CHECKING:
    from twisted.internet.interfaces import IStreamClientEndpoint

    from logbus.client.admin.admin_client import AdminClient

T = TypeVar("T")

MAX_INT = 2**31 - 1
NAME = string("The name: ASCII letters, digits, '.', '_' and '-'.", minLength=1, maxLength=249)
NEW_TOPIC = object_schema(
    "A topic to create.",
    name=NAME,
    partitions=integer("Number of partitions; default: num.partitions.", minimum=1, maximum=MAX_INT),
    replication_factor=integer("Replicas; default: default.replication.factor.", minimum=1, maximum=MAX_INT),
    configs=mapping("Settings of the topic.", string("A value."), maxProperties=100),
    optional=("partitions", "replication_factor", "configs"),
)
TOPIC = object_schema("A topic.", name=NAME, partitions=integer("Number of partitions."))


@define(eq=False)
class TopicRoutes:
    """
    :ivar reactor: the process's.
    """

    controlled: ControlledBrokers
    reactor: Any

    @route(
        "GET",
        "/api/v1/topics",
        "The topics that clients have made",
        answer=object_schema("The topics.", items=array("By name.", TOPIC)),
        rights=TOKEN,
        errors=FAILURES,
    )
    def all(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        async def listed(admin: AdminClient) -> dict[str, Any]:
            found = sorted(await admin.list_topics(), key=lambda topic: topic.name)
            return {"items": [{"name": topic.name, "partitions": len(topic.partitions)} for topic in found]}

        return self._with_admin(listed)

    @route(
        "POST",
        "/api/v1/topics",
        "Create a topic",
        answer=TOPIC,
        body=NEW_TOPIC,
        status=HTTPStatus.CREATED,
        rights=TOKEN,
        errors=FAILURES,
    )
    def create(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        asked = call.body

        async def created(admin: AdminClient) -> dict[str, Any]:
            from logbus.client.admin.admin_client import NewTopic

            name = asked["name"]
            new = NewTopic(
                name, asked.get("partitions", -1), asked.get("replication_factor", -1), asked.get("configs", {})
            )
            error = (await admin.create_topics([new]))[name]
            if error is not None:
                raise error
            told = (await admin.describe_topics([name]))[name]
            if isinstance(told, Exception):
                raise told
            return {"name": name, "partitions": len(told.partitions)}

        return self._with_admin(created)

    @route(
        "DELETE",
        "/api/v1/topics/{topic}",
        "Delete a topic",
        parameters={"topic": NAME},
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        rights=TOKEN,
        errors=(HTTPStatus.NOT_FOUND, *FAILURES),
    )
    def delete(self, call: ViewRequest) -> Deferred[None]:
        name = call.path["topic"]

        async def deleted(admin: AdminClient) -> None:
            error = (await admin.delete_topics([name]))[name]
            if error is not None:
                raise error

        return self._with_admin(deleted)

    def _endpoint(self, host: str, port: int) -> IStreamClientEndpoint:
        from twisted.internet.endpoints import HostnameEndpoint

        return HostnameEndpoint(self.reactor, *self.controlled.brokers.reached(host, port))

    def _with_admin(self, work: Callable[[AdminClient], Awaitable[T]]) -> Deferred[T]:
        async def run() -> T:
            # Needed by those alone who ask for it: the client takes as long to import as a broker.
            from logbus.client.admin.admin_client import AdminClient
            from logbus.client.cluster.cluster import Cluster

            # After the changes of brokers that were asked for before.
            bootstrap = await self.controlled.worker.run(lambda: self.controlled.brokers.bootstrap)
            cluster = Cluster(self.reactor, bootstrap, client_id="logbus-test-server", endpoint=self._endpoint)
            try:
                return await work(AdminClient(cluster))
            finally:
                await cluster.close()

        return Deferred.fromCoroutine(run()).addErrback(as_problem)
