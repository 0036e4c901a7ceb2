"""A blocking connection to one broker: sends requests and receives their responses in order."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from logbus.errors import ErrorCode, ProtocolError
from logbus.pipeline.blocking import oauth_token, sasl, tls
from logbus.pipeline.blocking.connection_settings import ConnectionSettings, SaslSettings
from logbus.pipeline.blocking.patience import PATIENCE, telling
from logbus.pipeline.blocking.receive_buffers import ReceiveBuffers
from logbus.pipeline.blocking.retry import api_error
from logbus.pipeline.errors import AuthenticationFailed, Disconnected, RequestTimedOut
from logbus.records.file_slice import Parts, in_memory, joined
from logbus.wire.connection import ClientConnection, api_key_of
from logbus.wire.frame_buffer import describe_bad_length
from logbus.wire.messages import api
from logbus.wire.messages.api_versions import ApiVersionsResponse
from logbus.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from logbus.wire.negotiation import (
    NEWEST,
    api_versions_request,
    highest_common_version,
    served,
    version_after_refusal,
)
from logbus.wire.version_range import VersionRange

RESPONSE_MAX_BYTES = 256 << 20
_PREFIX = struct.Struct(">i")
_MOST_PARTS = 512
"""Of one system call: Linux takes up to 1024."""
_LIFETIME_USED = 0.85
"""The part of the SASL session lifetime after which a new connection is opened (KIP-368)."""


class Connection:
    """
    A connection that is open, authenticated, and knows the broker's API versions when the constructor returns. It is
    used by one thread at a time. The first error closes it; retries are the caller's task.

    :ivar peer: ``host:port``.
    :ivar versions: the broker's API versions, by API key.
    :ivar features: the cluster's finalized feature levels, by name (KIP-584).
    :raises Disconnected: (here and in requests) the connection could not be made, or ended.
    :raises AuthenticationFailed: the broker rejects the credentials, or its certificate is not trusted.
    """

    def __init__(self, settings: ConnectionSettings, host: str, port: int) -> None:
        self.peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.versions: Mapping[int, VersionRange] = {}
        self.features: Mapping[str, int] = {}
        self.used = time.monotonic()
        self._timeout = settings.request_timeout
        self._wire = ClientConnection(settings.client_id)
        self._names: deque[str] = deque()
        self._expires = float("inf")
        self._end: Disconnected | None = None
        deadline = time.monotonic() + settings.connect_timeout
        with telling(f"broker {self.peer} has not answered for {PATIENCE:g} s; still trying", patience=PATIENCE):
            self._open(settings, host, port, deadline)

    def _open(self, settings: ConnectionSettings, host: str, port: int, deadline: float) -> None:
        self._socket = self._connected(settings, host, port, deadline)
        try:
            self._negotiate(deadline)
            if settings.sasl is not None:
                self._authenticate(settings.sasl, deadline)
        except TimeoutError:
            self.close()
            raise RequestTimedOut(f"{self.peer}: no answer after {settings.connect_timeout:g} s") from None
        except BaseException:
            self.close()
            raise

    @property
    def usable(self) -> bool:
        """Whether requests can still be sent."""
        return self._end is None and time.monotonic() < self._expires

    @property
    def outstanding(self) -> int:
        """The number of requests without a response yet."""
        return len(self._names)

    def version(self, api_key: int) -> int:
        """
        The highest version of an API that both sides support.

        :raises ApiError: UNSUPPORTED_VERSION: there is none.
        """
        return highest_common_version(api_key, self.versions, self.peer)

    def request(
        self,
        message: Any,
        timeout: float | None = None,
        *,
        version: int | None = None,
        buffers: ReceiveBuffers | None = None,
    ) -> Any:
        """
        Send a request, and wait for the response.

        :param timeout: seconds; default: the settings'. Add the time for which the request may wait at the broker.
        :param version: default: the highest that both sides support.
        :param buffers: the buffers that the response is read into; default: new memory.
        :returns: the response, also if it has error codes. The caller may keep the records in it.
        :raises RequestTimedOut: the response did not come in time.
        :raises ApiError: UNSUPPORTED_VERSION.
        :raises EncodeError: ``message`` has a field that this version lacks.
        """
        self.send(message, version=version, timeout=timeout)
        return self.receive(timeout, buffers)

    def send(
        self,
        message: Any,
        *,
        version: int | None = None,
        timeout: float | None = None,
        expects_response: bool = True,
    ) -> None:
        """
        Send a request; :meth:`receive` returns the responses in the order of the requests.

        :param expects_response: False for a Produce with acks=0.
        """
        if self._end is not None:
            raise Disconnected(str(self._end))
        key = api_key_of(message)
        _, parts = self._wire.request(
            message, self.version(key) if version is None else version, expects_response=expects_response
        )
        name = api(key).name
        if expects_response:
            self._names.append(name)
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        with self._closing_on_error(name):
            self._write(parts, deadline)
        self.used = time.monotonic()

    def receive(self, timeout: float | None = None, buffers: ReceiveBuffers | None = None) -> Any:
        """
        The response to the oldest request that has none yet.

        :param timeout: seconds; default: the settings'.
        :param buffers: see :meth:`request`.
        """
        if self._end is not None:
            raise Disconnected(str(self._end))
        seconds = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + seconds
        name = self._names[0] if self._names else "nothing"
        with self._closing_on_error(name):
            length: int = _PREFIX.unpack(self._read(memoryview(bytearray(_PREFIX.size)), deadline))[0]
            if not 0 <= length <= RESPONSE_MAX_BYTES:
                raise ProtocolError(describe_bad_length(length, RESPONSE_MAX_BYTES))
            place = memoryview(bytearray(length)) if buffers is None else buffers.take(length)
            _, response = self._wire.receive(self._read(place, deadline))
        self._names.popleft()
        self.used = time.monotonic()
        return response

    def interrupt(self) -> None:
        """Make a thread that waits for a response fail at once; called from another thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def is_idle(self) -> bool:
        """Whether the connection is open and idle, with nothing to read (as there is when the broker has closed it)."""
        if not self.usable or self._names:
            return False
        try:
            # Not select(), which fails for descriptors from 1024 on.
            looked = select.poll()
            looked.register(self._socket, select.POLLIN)
            return not looked.poll(0)
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        """Close the connection; may be called again."""
        if self._end is None:
            self._end = Disconnected(f"the connection to {self.peer} was closed here")
        self._names.clear()
        with contextlib.suppress(OSError):
            self._socket.close()

    # Connecting, ApiVersions, SASL.

    def _connected(self, settings: ConnectionSettings, host: str, port: int, deadline: float) -> socket.socket:
        raw = None
        try:
            raw = socket.create_connection((host, port), timeout=_left(deadline))
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if settings.receive_buffer >= 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer)
            if settings.send_buffer >= 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer)
            if settings.tls is None:
                return raw
            raw.settimeout(_left(deadline))
            return tls.ssl_context(settings.tls).wrap_socket(raw, server_hostname=host)
        except BaseException as e:
            if raw is not None:
                raw.close()
            if isinstance(e, TimeoutError):
                raise RequestTimedOut(f"{self.peer}: not connected after {settings.connect_timeout:g} s") from None
            if isinstance(e, ssl.SSLCertVerificationError):
                raise AuthenticationFailed(f"{self.peer}: its certificate is not trusted: {e.verify_message}") from None
            if isinstance(e, socket.gaierror):
                raise Disconnected(f"{self.peer}: the name {host} cannot be resolved: {e.strerror}") from None
            if isinstance(e, OSError):
                raise Disconnected(f"{self.peer}: {e.strerror or e}") from None
            raise

    def _negotiate(self, deadline: float) -> None:
        """Request ApiVersions (KIP-35, KIP-511), first in our highest version, then in one that the broker supports."""
        response: ApiVersionsResponse = self.request(api_versions_request(NEWEST), _left(deadline), version=NEWEST)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = version_after_refusal(response)
            response = self.request(api_versions_request(version), _left(deadline), version=version)
        if response.error_code:
            raise api_error(response.error_code, f"versions served by {self.peer}")
        self.versions, self.features = served(response)

    def _authenticate(self, credentials: SaslSettings, deadline: float) -> None:
        answer = self.request(SaslHandshakeRequest(mechanism=credentials.mechanism), _left(deadline), version=1)
        if answer.error_code:
            enabled = ", ".join(answer.mechanisms) or "none"
            raise AuthenticationFailed(
                f"{self.peer} does not speak {credentials.mechanism}; its mechanisms are: {enabled}"
            )
        password = credentials.password if credentials.token is None else oauth_token.token_of(credentials.token)
        exchange = sasl.client_exchange(credentials.mechanism, credentials.username, password, os.urandom(18).hex())
        token = next(exchange)
        lifetime = 0
        while True:
            reply = self.request(SaslAuthenticateRequest(auth_bytes=token), _left(deadline))
            if reply.error_code:
                why = reply.error_message or f"error {reply.error_code}"
                if credentials.token is not None:
                    oauth_token.forget(credentials.token)
                    raise AuthenticationFailed(f"{self.peer} refuses the token: {why}")
                raise AuthenticationFailed(f"{self.peer} refuses the user {credentials.username!r}: {why}")
            lifetime = reply.session_lifetime_ms
            try:
                token = exchange.send(bytes(reply.auth_bytes))
            except StopIteration:
                break
        if lifetime > 0:
            self._expires = time.monotonic() + lifetime / 1000 * _LIFETIME_USED

    # Bytes.

    def _write(self, parts: Parts, deadline: float) -> None:
        """Send bytes, where TLS does not need them in one piece without a copy."""
        if isinstance(self._socket, ssl.SSLSocket) or len(parts) > _MOST_PARTS:
            parts = [joined(parts)]
        left = deque(memoryview(part) for part in in_memory(parts))
        while left:
            self._socket.settimeout(_left(deadline))
            sent = self._socket.send(left[0]) if len(left) == 1 else self._socket.sendmsg(left)
            while left and sent >= len(left[0]):
                sent -= len(left.popleft())
            if sent:
                left[0] = left[0][sent:]

    def _read(self, place: memoryview, deadline: float) -> memoryview:
        """Fill a buffer from the socket, without a further copy."""
        left = place
        while left:
            self._socket.settimeout(_left(deadline))
            count = self._socket.recv_into(left)
            if not count:
                raise ConnectionError("the broker hung up")
            left = left[count:]
        return place

    @contextlib.contextmanager
    def _closing_on_error(self, name: str) -> Any:
        """Close the connection upon any error, as a message may have been sent or received in part."""
        try:
            yield
        except TimeoutError:
            error: Disconnected = RequestTimedOut(f"{name}: no answer from {self.peer} in time")
        except (OSError, ValueError) as e:
            error = Disconnected(f"the connection to {self.peer} was lost: {e}")
        except ProtocolError as e:
            error = Disconnected(f"the connection to {self.peer} was closed here: {e}")
        except BaseException:
            self.close()
            raise
        else:
            return
        self.close()
        self._end = error
        raise error from None


def _left(deadline: float) -> float:
    """
    Seconds left, more than 0: a socket timeout of 0 would mean non-blocking.

    :raises TimeoutError: there are none left.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
