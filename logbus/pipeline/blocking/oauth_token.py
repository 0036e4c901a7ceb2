"""Gets the token of a SASL OAUTHBEARER login: from a file, a token endpoint (OAuth 2.0), or a function."""

from __future__ import annotations

import base64
import http.client
import importlib
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from attrs import field, frozen

from logbus.pipeline.errors import AuthenticationFailed, OptionError, Unreachable

_USED = 0.8
"""The part of a token's lifetime for which it is used again."""

_LONGEST = 1 << 20


@frozen
class TokenSource:
    """
    The source of tokens; can be pickled. One of ``url`` and ``callback`` is given.

    :ivar url: ``file:`` and a path: the file is read at each login. ``https:`` or ``http:``: a token endpoint, which is
        asked for a token by client credentials (RFC 6749, section 4.4).
    :ivar callback: ``MODULE:FUNCTION``, which is called without arguments at each login, and returns the token.
    :ivar scope: that is asked for; "": none.
    :ivar timeout: seconds to wait for the endpoint.
    :raise OptionError: there is neither or both, or it is of another form.
    """

    url: str = ""
    callback: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    timeout: float = 10.0

    def __attrs_post_init__(self) -> None:
        if bool(self.url) == bool(self.callback):
            raise OptionError(
                "OAUTHBEARER needs a token: give sasl.oauthbearer.token.endpoint.url or sasl.oauthbearer.token.callback"
            )
        parts = urllib.parse.urlsplit(self.url)
        if self.callback and not all(part for part in self.callback.partition(":")):
            raise OptionError(
                f"sasl.oauthbearer.token.callback is {self.callback!r}; it takes MODULE:FUNCTION, such as "
                "company.tokens:get"
            )
        if parts.scheme in ("http", "https") and parts.hostname:
            if not self.client_id or not self.client_secret:
                raise OptionError(
                    "a token endpoint needs client id and secret: give sasl.oauthbearer.client.credentials.client.id "
                    "and .client.secret, or clientId and clientSecret in sasl.jaas.config"
                )
        elif self.url and (parts.scheme != "file" or parts.netloc or not parts.path.startswith("/")):
            raise OptionError(
                f"sasl.oauthbearer.token.endpoint.url is {self.url!r}; it takes file:///PATH, or the URL of a token "
                "endpoint"
            )


_cached: dict[TokenSource, tuple[float, str]] = {}
_lock = threading.Lock()


def token_of(source: TokenSource) -> str:
    """
    A token for a login. One of an endpoint is used again for the most part of its lifetime.

    :raise AuthenticationFailed: there is no token: no file, an error of the function, or the endpoint refuses us.
    :raise Unreachable: the endpoint does not answer.
    """
    if source.callback:
        return _called(source.callback)
    if source.url.startswith("file:"):
        path = Path(urllib.parse.unquote(urllib.parse.urlsplit(source.url).path))
        try:
            return path.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as e:
            raise AuthenticationFailed(f"the token in {path} cannot be read: {e}") from None
    with _lock:
        until, token = _cached.get(source, (0.0, ""))
        if time.monotonic() >= until:
            token, lifetime = _requested(source)
            _cached[source] = time.monotonic() + _USED * lifetime, token
        return token


def forget(source: TokenSource) -> None:
    """Request a new token for the next login, since brokers refuse the last one."""
    with _lock:
        _cached.pop(source, None)


def _called(name: str) -> str:
    module, _, function = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in function.split("."):
            found = getattr(found, part)
        token = found()
    except Exception as e:
        raise AuthenticationFailed(f"the function {name} gives no token: {type(e).__name__}: {e}") from e
    if not isinstance(token, str) or not token:
        raise AuthenticationFailed(f"the function {name} gives no token, but {type(token).__name__}")
    return token


def _requested(source: TokenSource) -> tuple[str, float]:
    """A new token, and for how many seconds it is valid."""
    form = {"grant_type": "client_credentials", **({"scope": source.scope} if source.scope else {})}
    # As RFC 6749 encodes them, section 2.3.1.
    credentials = ":".join(map(urllib.parse.quote_plus, (source.client_id, source.client_secret)))
    request = urllib.request.Request(
        source.url,
        urllib.parse.urlencode(form).encode(),
        {
            "Authorization": "Basic " + base64.b64encode(credentials.encode()).decode(),
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=source.timeout) as answer:
            text = answer.read(_LONGEST)
            if answer.length and len(text) < _LONGEST:
                raise http.client.IncompleteRead(text, answer.length)
            found = json.loads(text)
        return str(found["access_token"]), float(found.get("expires_in", 0))
    except urllib.error.HTTPError as e:
        error = Unreachable if e.code >= 500 else AuthenticationFailed
        raise error(f"{source.url} gives no token: {e.code} {_reason(e)}") from None
    except (ValueError, KeyError, TypeError) as e:
        raise AuthenticationFailed(f"{source.url} gives no token: {e!r}") from None
    except OSError as e:
        raise Unreachable(f"{source.url}: {getattr(e, 'reason', e)}") from None
    except http.client.HTTPException as e:
        raise Unreachable(
            f"{source.url} gives no token: what came is no answer of HTTP, or a part of one: {e!r}"
        ) from None


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        found = json.loads(error.read(_LONGEST))
        return str(found.get("error_description") or found["error"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return str(error.reason)
