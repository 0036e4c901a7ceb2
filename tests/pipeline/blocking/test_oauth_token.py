"""Tests where tokens of OAUTHBEARER come from."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from logbus.pipeline.blocking import oauth_token
from logbus.pipeline.blocking.connection_settings import ConnectionSettings
from logbus.pipeline.blocking.oauth_token import TokenSource, token_of
from logbus.pipeline.errors import AuthenticationFailed, OptionError, Unreachable

JAAS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


class Endpoint(HTTPServer):
    """A token endpoint: its answers, and what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.answer = 200, b""
        self.headers: dict[str, str] = {}
        self.instead = b""
        self.asked: list[tuple[str, dict[str, list[str]]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        credentials = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        server.asked.append((credentials, form))
        if server.instead:
            self.wfile.write(server.instead)
            return
        self.send_response(server.status)
        for name, value in server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(server.answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def settings(**options: str) -> TokenSource:
    """As options say; a double underscore is a dot."""
    given = {f"sasl.{name.replace('__', '.')}": value for name, value in options.items()}
    made = ConnectionSettings.from_options(
        {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "oauthbearer", **given}
    )
    assert made.sasl is not None and made.sasl.token is not None
    return made.sasl.token


def test_endpoint(endpoint: Endpoint) -> None:
    """It is asked by client credentials, and its token used again until it is refused."""
    jaas = f'{JAAS} clientId="me:1" clientSecret="s" scope="a b";'
    source = settings(oauthbearer__token__endpoint__url=endpoint.url, jaas__config=jaas)
    endpoint.answer = json.dumps({"access_token": "one", "expires_in": 3600}).encode()
    assert [token_of(source) for _ in range(3)] == ["one"] * 3
    assert endpoint.asked == [("me%3A1:s", {"grant_type": ["client_credentials"], "scope": ["a b"]})]
    endpoint.answer = json.dumps({"access_token": "two"}).encode()
    oauth_token.forget(source)
    assert [token_of(source) for _ in range(2)] == ["two"] * 2
    assert len(endpoint.asked) == 3  # it does not say for how long: it is not used again
    assert "clientSecret" not in repr(source) and "'s'" not in repr(source)


def test_endpoint_that_gives_none(endpoint: Endpoint) -> None:
    """Its reason is said; what may pass is not the same error as what will not."""
    source = TokenSource(url=endpoint.url, client_id="me", client_secret="wrong")
    endpoint.status, endpoint.answer = 401, b'{"error": "invalid_client", "error_description": "who are you?"}'
    with pytest.raises(AuthenticationFailed, match=r"/token gives no token: 401 who are you\?"):
        token_of(source)
    endpoint.status = 503
    with pytest.raises(Unreachable, match="503"):
        token_of(source)
    endpoint.status, endpoint.answer = 200, b"<html>"
    with pytest.raises(AuthenticationFailed, match="gives no token"):
        token_of(source)
    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:9/: "):
        token_of(TokenSource(url="http://127.0.0.1:9/", client_id="me", client_secret="s"))


def test_endpoint_that_breaks_off(endpoint: Endpoint) -> None:
    """An answer that ends early may be whole the next time, as that of a proxy that has just no endpoint behind it."""
    source = TokenSource(url=endpoint.url, client_id="me", client_secret="s")
    endpoint.answer = b'{"access_token": "a.b'
    endpoint.headers = {"Content-Length": "99"}
    with pytest.raises(Unreachable, match=r"/token gives no token: .*IncompleteRead"):
        token_of(source)
    endpoint.status = 503
    with pytest.raises(Unreachable, match=r"/token gives no token: 503"):
        token_of(source)
    endpoint.status, endpoint.headers, endpoint.answer = 401, {"Transfer-Encoding": "chunked"}, b"99\r\n{"
    with pytest.raises(AuthenticationFailed, match=r"/token gives no token: 401 Unauthorized"):
        token_of(source)
    endpoint.status = 200
    with pytest.raises(Unreachable, match=r"/token gives no token: .*IncompleteRead"):
        token_of(source)
    endpoint.instead = b"SSH-2.0-OpenSSH_9.6\r\n"
    with pytest.raises(Unreachable, match=r"/token gives no token: .*BadStatusLine.*SSH"):
        token_of(source)


def given() -> str:
    """A callback."""
    return "from here"


def test_callback_and_file(tmp_path: Path) -> None:
    """Both are asked at each login."""
    assert token_of(settings(oauthbearer__token__callback=f"{__name__}:given")) == "from here"
    for name, why in (("given2", "no attribute 'given2'"), ("__name__", "'str' object is not callable")):
        with pytest.raises(AuthenticationFailed, match=f"the function .*:{name} gives no token: .*{why}"):
            token_of(TokenSource(callback=f"{__name__}:{name}"))
    file = tmp_path / "a b"
    source = settings(oauthbearer__token__endpoint__url=file.as_uri())
    with pytest.raises(AuthenticationFailed, match="cannot be read"):
        token_of(source)
    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        assert token_of(source) == token


def test_wrong_options() -> None:
    """Each is named, with what it takes."""
    for options, why in (
        ({}, "OAUTHBEARER needs a token: give sasl.oauthbearer.token.endpoint.url or"),
        ({"oauthbearer__token__endpoint__url": "file:x"}, "it takes file:///PATH, or the URL of a token endpoint"),
        ({"oauthbearer__token__endpoint__url": "https://a/t"}, "a token endpoint needs client id and secret"),
        ({"oauthbearer__token__callback": "get"}, "it takes MODULE:FUNCTION"),
        ({"oauthbearer__token__callback": "a:b", "jaas__config": "x.Y required a=1;"}, "the login module of OAUTHB"),
    ):
        with pytest.raises(OptionError, match=why):
            settings(**options)
