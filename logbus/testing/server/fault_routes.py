"""Routes of faults, which happen to the next requests of clients, and of the requests that brokers got."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from itertools import count
from typing import Any, TypeVar

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from logbus.admin.json_schema import JsonSchema, array, boolean, integer, nullable, number, object_schema, string
from logbus.admin.problem_details import HttpProblem
from logbus.admin.routing import ViewRequest, route
from logbus.testing.broker import Broker
from logbus.testing.faults import Fault, rule_from_json
from logbus.testing.requests.apis import WrongRequest
from logbus.testing.requests.recorded import wanted
from logbus.testing.server.server_routes import TOKEN, ControlledBrokers, sentence

T = TypeVar("T")

POLL_SECONDS = 0.03
"""Between two looks of a request that waits."""
TIMEOUT = {"timeout": integer("Seconds to wait at most.", minimum=0, maximum=300, default=0)}
BROKER = {"broker": {**integer("Only this broker; without it all of them.", minimum=0), "default": None}}
API = {"type": ["string", "integer"], "description": "Kafka's name of the API, such as Produce, or its key; * for all."}
RULE = object_schema(
    "What happens, and to which requests; the first fault that fits one decides.",
    action=string("What happens.", enum=["fail", "delay", "drop", "disconnect", "corrupt", "throttle"]),
    api=API,
    client_id=string("Only these clients; * and ? stand for anything."),
    topic=string("Only this topic; * and ? stand for anything."),
    partition=integer("Only this partition."),
    times=integer("How many requests of each broker it happens to; without it all, until it is removed."),
    skip=integer("How many requests are let through before."),
    after=boolean("Whether the request is carried out first, and only its answer is lost, late or wrong."),
    error={"type": ["string", "integer"], "description": "fail: Kafka's name of the error, or its code."},
    message=string("fail: the text that goes with the error."),
    seconds=number("delay: how long."),
    how=string("corrupt: flip (a bit), garbage, cut or correlation (the answer to another request)."),
    bytes_per_second=number("throttle: the rate of the answers."),
    optional=(
        *("api", "client_id", "topic", "partition", "times", "skip", "after"),
        *("error", "message", "seconds", "how", "bytes_per_second"),
    ),
)
FAULT = object_schema(
    "A fault.",
    id=integer("Its number."),
    rule=RULE,
    hits=integer("How many requests it has happened to, of all brokers."),
)
RECORDED = object_schema(
    "A request that a broker got.",
    broker=integer("The broker."),
    number=integer("Counts the requests of the broker."),
    api=string("Kafka's name of the API."),
    version=integer("Of the request."),
    client_id=nullable(string("Of the client.")),
    connection=integer("Tells connections apart."),
    partitions=array(
        "The topics and partitions that it names.",
        object_schema("One.", topic=string("The topic."), partition=nullable(integer("The partition; null: all."))),
    ),
    errors=array("The errors in the answer, by Kafka's names.", string("A name.")),
    received=number("When it was received, in seconds since 1970."),
    answered=nullable(number("When it was answered; null: not, or not yet.")),
    mark=string("Of a mark that a test has set: its text."),
    optional=("mark",),
)
FILTER: Mapping[str, JsonSchema] = {
    "api": string("Kafka's name of the API, or * for all.", default="*"),
    "client_id": {**string("Only these clients; * and ? stand for anything."), "default": None},
    "topic": {**string("Only requests that name this topic; * and ? stand for anything."), "default": None},
    "partition": {**integer("Only requests that name this partition."), "default": None},
    "error": {**string("Only requests with this error in the answer; NONE: without any."), "default": None},
}


@frozen
class _Numbered:
    """A fault of some brokers: the handle of each, and the rule as it was sent."""

    rule: Mapping[str, Any]
    handles: list[Fault]


@define(eq=False)
class FaultRoutes:
    """
    :ivar reactor: the process's.
    """

    controlled: ControlledBrokers
    reactor: Any
    _faults: dict[int, _Numbered] = field(factory=dict, init=False)
    _numbers: Any = field(factory=lambda: count(1), init=False)

    @route(
        "POST",
        "/api/v1/faults",
        "Have something happen to the next requests of clients",
        answer=FAULT,
        body=RULE,
        parameters=BROKER,
        status=HTTPStatus.CREATED,
        rights=f"{TOKEN} Faults last until they are removed, or all are by a reset.",
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    )
    def add(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        rule = self._checked(lambda: rule_from_json(call.body))
        brokers = self._brokers(call)

        def added() -> dict[str, Any]:
            handles = [broker.faults.add(rule) for _, broker in brokers]
            given = next(self._numbers)
            self._faults[given] = _Numbered(rule.as_json(), handles)
            return self._told(given)

        return self.controlled.change(added)

    @route(
        "GET",
        "/api/v1/faults",
        "The faults that were added",
        answer=object_schema("The faults.", items=array("By their numbers.", FAULT)),
        rights=TOKEN,
    )
    def all(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return self.controlled.change(lambda: {"items": [self._told(given) for given in self._faults]})

    @route(
        "GET",
        "/api/v1/faults/{fault}",
        "One fault; with a timeout, once it has happened to so many requests",
        answer=FAULT,
        parameters={
            "fault": integer("The fault's number."),
            "hits": integer("Requests to wait for.", minimum=0, default=0),
            **TIMEOUT,
        },
        rights=f"{TOKEN} It is answered after the timeout in any case, with what has happened until then.",
        errors=(HTTPStatus.NOT_FOUND,),
    )
    def one(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        given, hits = self._number(call), call.query["hits"]
        return self._wait(lambda: self._told(given), lambda told: told["hits"] >= hits, call.query["timeout"])

    @route(
        "DELETE",
        "/api/v1/faults/{fault}",
        "Remove a fault",
        parameters={"fault": integer("The fault's number.")},
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        rights=TOKEN,
        errors=(HTTPStatus.NOT_FOUND,),
    )
    def remove(self, call: ViewRequest) -> Deferred[None]:
        handles = self._faults.pop(self._number(call)).handles

        def removed() -> None:
            for handle in handles:
                handle.remove()

        return self.controlled.change(removed)

    @route(
        "DELETE",
        "/api/v1/faults",
        "Remove all faults",
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        rights=TOKEN,
    )
    def clear(self, call: ViewRequest) -> Deferred[None]:
        self._faults.clear()

        def cleared() -> None:
            for broker in self.controlled.brokers.numbered().values():
                broker.faults.clear()

        return self.controlled.change(cleared)

    @route(
        "GET",
        "/api/v1/requests",
        "The last requests of clients; with a timeout, once there are so many",
        answer=object_schema("The requests.", items=array("Oldest first.", RECORDED)),
        parameters={
            **BROKER,
            **FILTER,
            "count": integer("Requests to wait for.", minimum=0, default=0),
            **TIMEOUT,
        },
        rights=f"{TOKEN} It is answered after the timeout in any case, with those that there are.",
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    )
    def requests(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        which = {name: call.query[name] for name in FILTER}
        self._checked(lambda: wanted(which["api"], **{name: which[name] for name in FILTER if name != "api"}))
        brokers = self._brokers(call)

        def found() -> dict[str, Any]:
            listed = [(each, number) for number, broker in brokers for each in broker.requests.find(**which)]
            listed.sort(key=lambda pair: pair[0].received)
            items = [{"broker": number, **each.as_json()} for each, number in listed]
            return {"items": items}

        wanted_count = call.query["count"]
        return self._wait(found, lambda told: len(told["items"]) >= wanted_count, call.query["timeout"])

    @route(
        "DELETE",
        "/api/v1/requests",
        "Forget all requests so far",
        status=HTTPStatus.NO_CONTENT,
        content_types=(),
        rights=TOKEN,
    )
    def forget(self, call: ViewRequest) -> Deferred[None]:
        def forgotten() -> None:
            for broker in self.controlled.brokers.numbered().values():
                broker.requests.clear()

        return self.controlled.change(forgotten)

    def _wait(self, look: Callable[[], T], is_enough: Callable[[T], bool], timeout: float) -> Deferred[T]:
        async def looked() -> T:
            until = time.monotonic() + timeout
            while not is_enough(found := await self.controlled.change(look)) and time.monotonic() < until:
                await deferLater(self.reactor, POLL_SECONDS)
            return found

        return Deferred.fromCoroutine(looked())

    def _brokers(self, call: ViewRequest) -> Iterable[tuple[int, Broker]]:
        found, only = self.controlled.brokers.numbered(), call.query["broker"]
        if only is not None and only not in found:
            raise HttpProblem(HTTPStatus.NOT_FOUND, f"There is no broker {only}.")
        chosen = found.items() if only is None else [(only, found[only])]
        return list(chosen)

    def _number(self, call: ViewRequest) -> int:
        given: int = call.path["fault"]
        if given not in self._faults:
            raise HttpProblem(HTTPStatus.NOT_FOUND, f"There is no fault {given}: it was removed, or never added.")
        return given

    def _told(self, given: int) -> dict[str, Any]:
        known = self._faults.get(given)
        if known is None:
            raise HttpProblem(HTTPStatus.NOT_FOUND, f"The fault {given} was removed.")
        return {"id": given, "rule": dict(known.rule), "hits": sum(each.hits for each in known.handles)}

    def _checked(self, make: Callable[[], T]) -> T:
        try:
            return make()
        except WrongRequest as e:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, sentence(e)) from None
