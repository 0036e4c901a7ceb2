"""Routes of troubles: cut links, leaders that move, sessions that expire, groups, producers, transactions."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred

from logbus.admin.json_schema import array, integer, number, object_schema, string
from logbus.admin.routing import ViewRequest, route
from logbus.testing.local_cluster import WAYS
from logbus.testing.server.broker_routes import BROKER_ID
from logbus.testing.server.brokers_in_trouble import STORE, BrokersInTrouble
from logbus.testing.server.server_routes import FAILURES, TOKEN, ControlledBrokers

OTHERS = object_schema(
    "Who cannot be reached.",
    others=array(
        f"Numbers of brokers, and '{STORE}', the metadata store; without it all of them.",
        {"type": ["integer", "string"], "description": f"A number, or '{STORE}'."},
    ),
    way=string("from: nothing that the broker says arrives; to: it hears nothing. Default: both.", enum=list(WAYS)),
    optional=("others", "way"),
)
LEADER = object_schema("Who leads the partition.", leader=integer("The broker."))
MOVED = object_schema(
    "Who shall lead.", to=integer("A broker with a replica; default: the next of them."), optional=("to",)
)
PARTITION = {"topic": string("The topic."), "partition": integer("The partition.", minimum=0)}
HANGING = object_schema(
    "A transaction.",
    topic=string("Where it has a record."),
    partition=integer("Default: 0.", minimum=0),
    transactional_id=string("Default: a random one.", minLength=1),
    timeout_seconds=number("After so long the coordinator aborts it; default: 60.", minimum=0.001, maximum=900),
    optional=("partition", "transactional_id", "timeout_seconds"),
)
HUNG = object_schema("A transaction that is open.", transactional_id=string("Of its producer, which is gone."))
NOTHING: dict[str, Any] = {"status": HTTPStatus.NO_CONTENT, "content_types": ()}
ERRORS = (HTTPStatus.NOT_FOUND, *FAILURES)


@define(eq=False)
class TroubleRoutes:
    """
    :ivar controlled: the brokers.
    """

    controlled: ControlledBrokers

    @property
    def _trouble(self) -> BrokersInTrouble:
        return BrokersInTrouble(self.controlled.brokers)

    @route(
        "POST",
        "/api/v1/brokers/{broker}/cut-off",
        "Let nothing through between a broker of a cluster and others",
        body=OTHERS,
        parameters=BROKER_ID,
        rights=f"{TOKEN} Clients still reach it.",
        errors=ERRORS,
        **NOTHING,
    )
    def cut_off(self, call: ViewRequest) -> Deferred[None]:
        broker, others, way = call.path["broker"], call.body.get("others", ()), call.body.get("way", "both")
        return self.controlled.change(lambda: self._trouble.cut_off(broker, others, way))

    @route(
        "POST",
        "/api/v1/brokers/{broker}/reconnect",
        "End all cuts of a broker",
        parameters=BROKER_ID,
        rights=TOKEN,
        errors=ERRORS,
        **NOTHING,
    )
    def reconnect(self, call: ViewRequest) -> Deferred[None]:
        return self.controlled.change(lambda: self._trouble.reconnect(call.path["broker"]))

    @route(
        "POST",
        "/api/v1/brokers/{broker}/expire-session",
        "Have the metadata store end the session of a broker of a cluster",
        parameters=BROKER_ID,
        rights=TOKEN,
        errors=ERRORS,
        **NOTHING,
    )
    def expire_session(self, call: ViewRequest) -> Deferred[None]:
        return self.controlled.change(lambda: self._trouble.expire_session(call.path["broker"]))

    @route(
        "POST",
        "/api/v1/topics/{topic}/partitions/{partition}/move-leader",
        "Have another replica lead a partition",
        answer=LEADER,
        body=MOVED,
        parameters=PARTITION,
        rights=f"{TOKEN} Answered once it does.",
        errors=ERRORS,
    )
    def move_leader(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        topic, partition, to = call.path["topic"], call.path["partition"], call.body.get("to")
        moved = self.controlled.change(lambda: self._trouble.move_leader(topic, partition, to))
        return moved.addCallback(lambda leader: {"leader": leader})

    @route(
        "POST",
        "/api/v1/groups/{group}/rebalance",
        "Have all members of a group of the classic protocol join again",
        parameters={"group": string("The group's id.")},
        rights=TOKEN,
        errors=ERRORS,
        **NOTHING,
    )
    def rebalance(self, call: ViewRequest) -> Deferred[None]:
        return self.controlled.change(lambda: self._trouble.force_rebalance(call.path["group"]))

    @route(
        "POST",
        "/api/v1/producers/{transactional_id}/fence",
        "Abort the transaction of an id, and fence its producer",
        parameters={"transactional_id": string("The id.")},
        rights=TOKEN,
        errors=ERRORS,
        **NOTHING,
    )
    def fence(self, call: ViewRequest) -> Deferred[None]:
        return self.controlled.change(lambda: self._trouble.fence_producer(call.path["transactional_id"]))

    @route(
        "POST",
        "/api/v1/transactions",
        "Leave a transaction open, with one record, of a producer that is gone",
        answer=HUNG,
        body=HANGING,
        status=HTTPStatus.CREATED,
        rights=f"{TOKEN} Consumers of committed records wait until it is aborted.",
        errors=FAILURES,
    )
    def hang(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        asked = call.body
        partition, seconds = asked.get("partition", 0), asked.get("timeout_seconds", 60.0)
        given = asked.get("transactional_id")
        left = self.controlled.change(lambda: self._trouble.hang_transaction(asked["topic"], partition, given, seconds))
        return left.addCallback(lambda name: {"transactional_id": name})
