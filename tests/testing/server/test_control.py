"""The control interface of a test server, as programs of other languages use it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient

from logbus.testing.cluster_roles import known_brokers
from tests.interop.clients import KafkaPython, Message
from tests.testing.server.processes import LOGBUS, addresses, environment, send

PIPE = subprocess.PIPE
Told = dict[str, Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """A server with a broker in its process."""
    yield from _server(tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """A server with a broker in a process of its own."""
    yield from _server(tmp_path_factory.mktemp("apart"), "--own-process")


def _server(home: Path, *more: str) -> Iterator[Told]:
    file = home / "server.json"
    command = [*LOGBUS, "--port-file", str(file), "--set", "num.partitions=2", *more]
    with subprocess.Popen(command, stdin=PIPE, env=environment(home)) as process:
        yield addresses(file, process)


def test_addresses(server: Told) -> None:
    """They are those of the port file, without the token."""
    status, told = send(server, "GET", "/server")
    assert status == 200
    assert {**told, "token": server["token"]} == server


def test_topics(server: Told) -> None:
    """Topics are created, listed and deleted; a setting may be given, and defaults are the broker's."""
    new = {"name": "orders", "partitions": 3, "replication_factor": 1, "configs": {"cleanup.policy": "compact"}}
    assert send(server, "POST", "/topics", new) == (201, {"name": "orders", "partitions": 3})
    assert send(server, "POST", "/topics", {"name": "plain"}) == (201, {"name": "plain", "partitions": 2})
    listed = [{"name": "orders", "partitions": 3}, {"name": "plain", "partitions": 2}]
    assert send(server, "GET", "/topics") == (200, {"items": listed})
    assert send(server, "DELETE", "/topics/orders") == (204, None)
    assert send(server, "DELETE", "/topics/plain") == (204, None)
    assert send(server, "GET", "/topics") == (200, {"items": []})


def test_reset(server: Told) -> None:
    """It is empty afterwards, on the same addresses, and clients go on."""
    assert send(server, "POST", "/topics", {"name": "orders", "partitions": 1})[0] == 201
    KafkaPython().produce(server["bootstrap"], "orders", [Message(b"old")])
    status, told = send(server, "POST", "/server/reset")
    assert (status, told["bootstrap"]) == (200, server["bootstrap"])
    assert send(server, "GET", "/topics") == (200, {"items": []})
    assert send(server, "POST", "/topics", {"name": "orders", "partitions": 1})[0] == 201
    KafkaPython().produce(server["bootstrap"], "orders", [Message(b"new")])
    (found,) = KafkaPython().fetch(server["bootstrap"], "orders", 1)
    assert (found.value, found.offset) == (b"new", 0)
    assert send(server, "DELETE", "/topics/orders")[0] == 204


def test_stop_and_start(server: Told) -> None:
    """A stopped broker is as one that is down, and comes back with its data."""
    assert send(server, "POST", "/topics", {"name": "kept"})[0] == 201
    status, told = send(server, "POST", "/server/stop")
    assert (status, told["brokers"][0]["state"]) == (200, "stopped")
    assert known_brokers(server["bootstrap"]) == 0
    assert refused(server, "GET", "/topics") == (409, "No broker runs.")
    assert refused(server, "POST", "/brokers/0/stop") == (409, "Broker 0 does not run.")
    status, told = send(server, "POST", "/server/start")
    assert (status, told["brokers"][0]["state"]) == (200, "running")
    assert refused(server, "POST", "/brokers/0/start") == (409, "Broker 0 runs already.")
    assert send(server, "POST", "/brokers/0/restart")[1]["state"] == "running"
    assert send(server, "GET", "/topics") == (200, {"items": [{"name": "kept", "partitions": 2}]})
    assert send(server, "DELETE", "/topics/kept")[0] == 204


def test_kill_and_freeze(apart: Told) -> None:
    """A broker with a process of its own is killed, started, frozen, and goes on; a reset ends all that."""
    assert send(apart, "POST", "/brokers/0/freeze")[1]["state"] == "frozen"
    assert refused(apart, "GET", "/topics") == (409, "No broker runs.")
    assert send(apart, "POST", "/brokers/0/thaw")[1]["state"] == "running"
    assert send(apart, "POST", "/topics", {"name": "kept"})[0] == 201
    assert send(apart, "POST", "/brokers/0/kill")[1]["state"] == "stopped"
    assert known_brokers(apart["bootstrap"]) == 0
    assert send(apart, "POST", "/brokers/0/start")[1]["state"] == "running"
    assert send(apart, "GET", "/topics")[1] == {"items": [{"name": "kept", "partitions": 2}]}
    assert send(apart, "POST", "/brokers/0/freeze")[1]["state"] == "frozen"
    assert send(apart, "POST", "/server/reset")[1]["brokers"][0]["state"] == "running"
    assert send(apart, "GET", "/topics") == (200, {"items": []})
    assert send(apart, "POST", "/brokers/0/fill-disk") == (204, None)
    assert send(apart, "POST", "/brokers/0/free-disk") == (204, None)
    assert send(apart, "POST", "/time/advance", {"seconds": 1}) == (204, None)
    assert send(apart, "POST", "/faults", {"action": "drop", "api": "Heartbeat"})[0] == 201
    assert send(apart, "GET", "/requests?api=Metadata")[0] == 200


def test_not_apart(server: Told) -> None:
    """A broker in the server's process can be neither killed nor frozen, and the error says what to do."""
    for change, done in (("kill", "killed"), ("freeze", "frozen")):
        status, detail = refused(server, "POST", f"/brokers/0/{change}")
        assert status == 409
        assert detail.endswith(f"where it cannot be {done}; start the server with --own-process.")


def test_cluster(tmp_path: Path) -> None:
    """Several brokers are a cluster that needs no ZooKeeper: one can be killed, and all begin anew at a reset."""
    for told in _server(tmp_path, "--brokers", "3", "--as-version", "2.8"):
        assert len(told["bootstrap"].split(",")) == len(told["brokers"]) == 3
        assert send(told, "POST", "/topics", {"name": "orders", "replication_factor": 3})[0] == 201
        assert send(told, "POST", "/brokers/1/kill")[1]["state"] == "stopped"
        for trouble in ("cut-off", "expire-session"):
            wrong = refused(told, "POST", f"/brokers/1/{trouble}", {} if trouble == "cut-off" else None)
            assert wrong == (409, "Broker 1 does not run; start it first.")
        KafkaPython().produce(told["bootstrap"], "orders", [Message(b"old")], partition=1)
        assert send(told, "POST", "/brokers/1/start")[1]["state"] == "running"
        status, anew = send(told, "POST", "/server/reset")
        assert (status, {**anew, "token": told["token"]}) == (200, told)
        assert send(told, "GET", "/topics") == (200, {"items": []})
        assert refused(told, "POST", "/brokers/1/freeze")[0] == 409
        admin = KafkaAdminClient(bootstrap_servers=told["bootstrap"])
        assert admin.api_versions()[0] == (0, 9)
        admin.close()
        _cluster_troubles(told)


def _cluster_troubles(told: Told) -> None:
    """Leaders move, links are cut, sessions expire; a snapshot has the topics, and is restored."""
    assert send(told, "POST", "/topics", {"name": "kept", "partitions": 1, "replication_factor": 3})[0] == 201
    path = "/topics/kept/partitions/0/move-leader"
    for leader in (2, 1):
        assert send(told, "POST", path, {"to": leader}) == (200, {"leader": leader})
    assert send(told, "POST", path, {})[1]["leader"] in (0, 2)
    assert refused(told, "POST", path, {"to": 7}) == (404, "There is no broker 7; there are: 0, 1, 2.")
    assert send(told, "POST", "/brokers/1/cut-off", {"others": [0, "store"]}) == (204, None)
    assert send(told, "POST", "/brokers/2/cut-off", {}) == (204, None)
    assert send(told, "POST", "/brokers/2/cut-off", {"others": [1], "way": "from"}) == (204, None)
    assert refused(told, "POST", "/brokers/2/cut-off", {"others": ["store"], "way": "to"})[0] == 409
    assert refused(told, "POST", "/brokers/2/cut-off", {"way": "out"})[0] == 400
    assert refused(told, "POST", "/brokers/0/cut-off", {"others": [0]})[0] == 404
    for cut in (1, 2):
        assert send(told, "POST", f"/brokers/{cut}/reconnect") == (204, None)
    assert send(told, "POST", "/brokers/0/expire-session") == (204, None)
    status, taken = send(told, "POST", "/snapshots")
    assert status == 201
    assert send(told, "POST", "/topics", {"name": "later"})[0] == 201
    assert send(told, "POST", f"/snapshots/{taken['id']}/restore") == (200, taken)
    assert send(told, "GET", "/topics") == (200, {"items": [{"name": "kept", "partitions": 1}]})
    assert send(told, "POST", "/time/advance", {"seconds": 5}) == (204, None)


def test_faults(server: Told) -> None:
    """A request fails as a rule says, as often as it says; the history shows what the client did then."""
    assert send(server, "POST", "/topics", {"name": "orders", "partitions": 1})[0] == 201
    assert send(server, "DELETE", "/requests") == (204, None)
    rule = {"action": "fail", "api": "Produce", "topic": "orders", "error": "NOT_ENOUGH_REPLICAS", "times": 2}
    status, fault = send(server, "POST", "/faults", rule)
    assert (status, fault["hits"], fault["rule"]) == (201, 0, rule)
    KafkaPython().produce(server["bootstrap"], "orders", [Message(b"late")])
    path = f"/faults/{fault['id']}"
    assert send(server, "GET", f"{path}?hits=2&timeout=60") == (200, {**fault, "hits": 2})
    status, told = send(server, "GET", "/requests?api=Produce&topic=orders&count=3&timeout=60")
    assert (status, [each["errors"] for each in told["items"]]) == (
        200,
        [["NOT_ENOUGH_REPLICAS"], ["NOT_ENOUGH_REPLICAS"], []],
    )
    assert len(send(server, "GET", "/requests?api=Produce&error=NONE")[1]["items"]) == 1
    assert send(server, "GET", "/faults") == (200, {"items": [{**fault, "hits": 2}]})
    assert send(server, "DELETE", path) == (204, None)
    assert refused(server, "GET", path)[0] == refused(server, "DELETE", path)[0] == 404
    assert send(server, "POST", "/faults?broker=0", {"action": "drop", "api": "Fetch"})[0] == 201
    assert send(server, "DELETE", "/faults") == (204, None)
    assert send(server, "GET", "/faults") == (200, {"items": []})
    assert send(server, "DELETE", "/topics/orders")[0] == 204


def test_snapshots(server: Told) -> None:
    """A data set is prepared once; what came later is gone when it is restored."""
    assert send(server, "POST", "/topics", {"name": "prepared"})[0] == 201
    status, taken = send(server, "POST", "/snapshots")
    assert status == 201
    assert send(server, "POST", "/topics", {"name": "later"})[0] == 201
    path = f"/snapshots/{taken['id']}"
    assert send(server, "POST", f"{path}/restore") == (200, taken)
    assert send(server, "GET", "/topics") == (200, {"items": [{"name": "prepared", "partitions": 2}]})
    assert send(server, "DELETE", path) == (204, None)
    assert refused(server, "POST", f"{path}/restore") == (404, f"There is no snapshot {taken['id']}; there are: none.")
    assert send(server, "DELETE", "/topics/prepared")[0] == 204


def test_time_and_disk(server: Told) -> None:
    """Old records are removed once time has passed; a full disk takes no more, until it is free or all is reset."""
    kept = {"retention.ms": "60000", "segment.ms": "60000"}
    assert send(server, "POST", "/topics", {"name": "short", "partitions": 1, "configs": kept})[0] == 201
    KafkaPython().produce(server["bootstrap"], "short", [Message(b"old")])
    assert send(server, "POST", "/time/advance", {"seconds": 3600}) == (204, None)
    assert refused(server, "POST", "/time/advance", {"seconds": 0})[0] == 400
    assert send(server, "POST", "/brokers/0/fill-disk") == (204, None)
    assert refused(server, "POST", "/topics", {"name": "none"})[0] >= 400
    assert send(server, "POST", "/server/reset")[0] == 200
    assert send(server, "POST", "/topics", {"name": "some"})[0] == 201
    assert send(server, "POST", "/brokers/0/free-disk") == (204, None)
    assert send(server, "DELETE", "/topics/some")[0] == 204


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "detail"),
    [
        ("POST", "/topics", b"{", 400, "The body is not JSON: "),
        ("POST", "/topics", b"", 400, "The body is not JSON: "),
        ("POST", "/topics", [], 400, "The body is array, not object."),
        ("POST", "/topics", {"partitions": 1}, 400, "The body has no member 'name'."),
        (
            "POST",
            "/topics",
            {"name": "a", "partition": 1},
            400,
            "The body has the unknown member 'partition'; accepted",
        ),
        ("POST", "/topics", {"name": "a", "partitions": 0}, 400, "The body.partitions is 0; accepted: 1 to "),
        ("POST", "/topics", {"name": "a b"}, 400, "the topic name 'a b' has characters other than"),
        ("POST", "/topics", {"name": "a", "configs": {"x": "1"}}, 400, ""),
        ("DELETE", "/topics/nothing", None, 404, ""),
        ("POST", "/server/reset", {"x": 1}, 400, "POST /api/v1/server/reset takes no body."),
        ("POST", "/brokers/7/stop", None, 404, "There is no broker 7; there are: 0."),
        ("POST", "/brokers/first/stop", None, 400, "The part 'broker' of the path is string, not integer."),
        ("POST", "/brokers/0/explode", None, 404, "There is nothing at '/api/v1/brokers/0/explode'; "),
        ("GET", "/server/reset", None, 405, "/api/v1/server/reset does not answer GET; it answers OPTIONS, POST."),
        ("POST", "/faults", {"action": "explode"}, 400, "The body.action is not one of fail, delay, drop"),
        ("POST", "/faults", {"action": "fail", "api": "Produce"}, 400, "A rule to fail needs error, such as error="),
        ("POST", "/faults", {"action": "drop", "api": "Prodce"}, 400, ""),
        ("POST", "/faults?broker=7", {"action": "drop"}, 404, "There is no broker 7."),
        ("GET", "/requests?api=Nothing", None, 400, ""),
        ("GET", "/server?x=1", None, 400, "The query parameter 'x' is unknown; accepted: none."),
    ],
)
def test_wrong_request(server: Told, method: str, path: str, body: object, status: int, detail: str) -> None:
    """Each is refused with a sentence that says what is wrong."""
    found, told = refused(server, method, path, body)
    assert found == status
    assert told.startswith(detail)
    assert "\n" not in told


@pytest.mark.parametrize("token", ["", "Bearer", "Bearer x", "Basic YTpi", "Bearer x, Bearer y"])
def test_wrong_token(server: Told, token: str) -> None:
    """Without the token nothing is told, whatever is asked."""
    for path in ("/server", "/nothing"):
        status, detail = refused(server, "GET", path, Authorization=token)
        assert (status, detail) == (
            401,
            "The token is missing or wrong: send 'Authorization: Bearer TOKEN' with the 'token' of the port file.",
        )


def test_pages_of_others(server: Told) -> None:
    """A page of another origin is refused, and so is one whose own name was made to lead here."""
    status, detail = refused(server, "POST", "/server/reset", Origin="http://evil.example")
    assert (status, detail.partition(";")[0]) == (403, "The request comes from a page of 'http://evil.example'")
    assert refused(server, "GET", "/server", Host="evil.example")[0] == 421


def test_groups_and_transactions(server: Told) -> None:
    """A transaction hangs until its time is over, or its producer is fenced; what is not there is a sentence."""
    assert send(server, "POST", "/topics", {"name": "hung"})[0] == 201
    asked = {"topic": "hung", "partition": 1, "transactional_id": "gone", "timeout_seconds": 60}
    assert send(server, "POST", "/transactions", asked) == (201, {"transactional_id": "gone"})
    assert send(server, "POST", "/producers/gone/fence") == (204, None)
    assert refused(server, "POST", "/transactions", {"topic": "none", "partition": 7})[0] >= 400
    status, detail = refused(server, "POST", "/groups/nobody/rebalance")
    assert status == 409
    assert "there is no group 'nobody' of the classic protocol" in detail
    for path, body in (("cut-off", {}), ("reconnect", None), ("expire-session", None)):
        wanted = (409, "A single broker has no others; start the server with --brokers 3.")
        assert refused(server, "POST", f"/brokers/0/{path}", body) == wanted
    assert send(server, "DELETE", "/topics/hung")[0] == 204


def test_openapi(server: Told) -> None:
    """The interface describes itself."""
    status, told = send(server, "GET", "/openapi.json")
    assert (status, told["info"]["title"]) == (200, "logbus test-server")
    assert told["security"] == [{"token": []}]
    assert "/api/v1/server/reset" in told["paths"]


def refused(server: Told, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str]:
    """The status and the sentence of an error."""
    status, told = send(server, method, path, body, **headers)
    return status, told["detail"]
