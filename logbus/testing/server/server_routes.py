"""Routes of the whole server: its addresses, a fresh start, its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

from attrs import define
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.admin.json_schema import array, integer, nullable, object_schema, string
from logbus.admin.problem_details import HttpProblem
from logbus.admin.routing import ViewRequest, route
from logbus.errors import ApiError, LogbusError
from logbus.testing.server.brokers_under_test import BrokersUnderTest, NoSuchThing, NotPossible, in_one_line
from logbus.testing.server.worker_thread import WorkerThread

T = TypeVar("T")

TOKEN = "Needs the token."
BROKER = object_schema(
    "A broker.",
    id=integer("Its number."),
    bootstrap=nullable(string("HOST:PORT for Kafka clients; null: it was never ready.")),
    port=integer("The port that it listens on for Kafka clients."),
    admin_url=nullable(string("Its HTTP address.")),
    state=string("What it does.", enum=["running", "stopped", "frozen"]),
)
_MEMBERS = {
    "format": integer("The version of this format: 1."),
    "version": string("The server's version."),
    "pid": integer("Its process."),
    "bootstrap": string("For Kafka clients: HOST:PORT of each broker, separated by commas."),
    "admin_url": string("The HTTP address of the first broker: metrics, health, the REST API of a broker."),
    "registry_url": string("The address of its schema registry."),
    "control_url": string("The address of this interface."),
    "brokers": array("The brokers, by their numbers.", BROKER),
}
ADDRESSES = object_schema("The addresses.", optional=(), **_MEMBERS)
PORT_FILE = object_schema(
    "The port file; with 'error' it has only the first three members besides.",
    optional=("error",),
    **_MEMBERS,
    token=string("What requests to the control interface must send: 'Authorization: Bearer TOKEN'."),
    error=string("Why the server did not start, in one line."),
)
FAILURES = (HTTPStatus.CONFLICT, HTTPStatus.BAD_GATEWAY)


@define(eq=False)
class ControlledBrokers:
    """
    The brokers, for views: each change is one job of the worker thread.

    :ivar brokers: what is controlled.
    """

    brokers: BrokersUnderTest
    worker: WorkerThread

    def change(self, work: Callable[[], T]) -> Deferred[T]:
        """
        Call a blocking function.

        :raise HttpProblem: in the Deferred: it was refused or has failed.
        """
        return self.worker.run(work).addErrback(as_problem)


def as_problem(failure: Failure) -> Any:
    """
    Tell a client what was refused (404, 409), or has failed (502): the brokers have, not this interface.

    :raise HttpProblem: for an error of logbus; others remain what they are.
    """
    error = failure.value
    if isinstance(error, NoSuchThing):
        raise HttpProblem(HTTPStatus.NOT_FOUND, sentence(error)) from error
    if isinstance(error, NotPossible):
        raise HttpProblem(HTTPStatus.CONFLICT, sentence(error)) from error
    if isinstance(error, LogbusError) and not isinstance(error, ApiError | HttpProblem):
        raise HttpProblem(HTTPStatus.BAD_GATEWAY, sentence(error)) from error
    return failure


def sentence(error: BaseException) -> str:
    """An error's message as a sentence."""
    text = in_one_line(error)
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


@define(eq=False)
class ServerRoutes:
    """
    :ivar described: returns the addresses.
    :ivar end: ends the server, once the answer is sent.
    """

    controlled: ControlledBrokers
    described: Callable[[], Mapping[str, Any]]
    end: Callable[[], object]

    @route("GET", "/api/v1/server", "The addresses, and what the brokers do", answer=ADDRESSES, rights=TOKEN)
    def server(self, call: ViewRequest) -> Mapping[str, Any]:
        return self.described()

    @route(
        "POST",
        "/api/v1/server/reset",
        "Start anew on the same addresses, empty",
        answer=ADDRESSES,
        rights=f"{TOKEN} Topics, groups, transactions and changed settings are gone, and connections are closed.",
        errors=FAILURES,
    )
    def reset(self, call: ViewRequest) -> Deferred[Mapping[str, Any]]:
        return self._change(self.controlled.brokers.reset)

    @route(
        "POST",
        "/api/v1/server/start",
        "Start all brokers that do not run",
        answer=ADDRESSES,
        rights=TOKEN,
        errors=FAILURES,
    )
    def start(self, call: ViewRequest) -> Deferred[Mapping[str, Any]]:
        return self._change(self.controlled.brokers.start_all)

    @route("POST", "/api/v1/server/stop", "Stop all brokers in order", answer=ADDRESSES, rights=TOKEN, errors=FAILURES)
    def stop(self, call: ViewRequest) -> Deferred[Mapping[str, Any]]:
        return self._change(self.controlled.brokers.stop_all)

    @route(
        "POST",
        "/api/v1/server/advertise",
        "Have a single broker tell its clients another address: one that a container's port was mapped to",
        answer=ADDRESSES,
        body=object_schema(
            "The address.",
            host=string("A name or an address.", pattern="^[A-Za-z0-9._-]{1,253}$"),
            port=integer("The port.", minimum=1, maximum=65535),
        ),
        rights=f"{TOKEN} The broker is started again, and keeps its data.",
        errors=FAILURES,
    )
    def advertise(self, call: ViewRequest) -> Deferred[Mapping[str, Any]]:
        host, port = call.body["host"], call.body["port"]
        return self._change(lambda: self.controlled.brokers.advertise(host, port))

    @route(
        "POST",
        "/api/v1/server/shutdown",
        "End the server, and remove all data",
        status=HTTPStatus.ACCEPTED,
        answer=object_schema("The server ends.", pid=integer("Its process.")),
        rights=f"{TOKEN} It has ended when its process has.",
    )
    def shutdown(self, call: ViewRequest) -> dict[str, Any]:
        self.end()
        return {"pid": self.described()["pid"]}

    def _change(self, work: Callable[[], object]) -> Deferred[Mapping[str, Any]]:
        return self.controlled.change(work).addCallback(lambda _: self.described())
