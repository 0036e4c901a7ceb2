"""
The listeners of a broker (Kafka: SocketServer): binds ports early, so that they are known, and accepts connections
later, when the broker can answer.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IDelayedCall, IListeningPort, IProtocolFactory
from twisted.logger import Logger

from logbus.config.listener_address import ListenerAddress
from logbus.coroutines import returns_deferred
from logbus.errors import ConfigError
from logbus.extras import install_hint
from logbus.ilogbus import IBroker, IProtocolPlugin, Listener
from logbus.model import Endpoint
from logbus.net.listening_reactor import ListeningReactor

if TYPE_CHECKING:
    from logbus.security.tls.listener_tls import ListenerTls

WILDCARDS = frozenset({"0.0.0.0", "::", ""})


@define(eq=False)
class _BoundListener:
    """A listener with its port."""

    listener: Listener
    port: IListeningPort
    factory: IProtocolFactory


@define(eq=False)
class SocketServer:
    """
    The listeners of a broker.

    :param plugins: the protocols, by name.
    :param backlog: length of the kernel's queue of connections per listener.
    :param handshake_seconds: timeout of a TLS handshake.
    :param receive_buffer: bytes that the kernel buffers of what a client sends; −1: it adapts that to the connection.
    :param tls: returns what makes a listener's TLS connections, or None for a listener without TLS.
    """

    _reactor: Any
    _plugins: Mapping[str, IProtocolPlugin]
    _listeners: Sequence[Listener]
    _backlog: int = 50
    _handshake_seconds: float = 10.0
    _tls: Callable[[Listener], object | None] = lambda listener: None
    _receive_buffer: int = -1
    _bound: list[_BoundListener] = field(factory=list, init=False)
    # Those that are shared, until the broker serves.
    _waiting: list[tuple[Listener, IProtocolFactory]] = field(factory=list, init=False)
    _pauses: dict[str, IDelayedCall] = field(factory=dict, init=False)
    _log = Logger()

    @returns_deferred
    async def bind(self, broker: IBroker) -> dict[str, Endpoint]:
        """
        Bind all listeners without accepting: connections wait in the kernel's queue.

        :param broker: the services of the broker for the protocols.
        :return: fires with the advertised addresses, by listener name.
        :raise ConfigError: a protocol is unknown, an endpoint invalid, or a port taken.
        """
        try:
            for listener in self._listeners:
                factory = plugin_for(listener, self._plugins).factory(broker, listener)
                if listener.shared:
                    self._waiting.append((listener, factory))
                    continue
                port = await self._listen(listener, factory)
                self._reading(port, False)
        except Exception:
            await self.close()
            raise
        return {bound.listener.name: self._endpoint(bound) for bound in self._bound}

    async def _listen(self, listener: Listener, factory: IProtocolFactory) -> IListeningPort:
        reactor = ListeningReactor(
            self._reactor,
            self._backlog,
            self._handshake_seconds,
            self._tls(listener),
            reuse_port=listener.reuse_port or listener.shared,
            receive_buffer=self._receive_buffer,
        )
        try:
            port: IListeningPort = await serverFromString(reactor, listener.endpoint).listen(factory)
        except CannotListenError as e:
            raise ConfigError(f"listener {listener.name} ({listener.endpoint}): {e}") from e
        except (ValueError, TypeError, KeyError) as e:
            raise ConfigError(
                f"listener {listener.name}: {listener.endpoint!r} is not a server endpoint such as "
                f"tcp:9092:interface=127.0.0.1 ({e})"
            ) from e
        self._bound.append(_BoundListener(listener, port, factory))
        return port

    @returns_deferred
    async def share(self) -> None:
        """
        Listen where other processes do, too: connections that wait for this one would not wait for the others.

        :raise ConfigError: a port is taken.
        """
        while self._waiting:
            await self._listen(*self._waiting.pop())

    def addresses(self, protocol: str) -> list[ListenerAddress]:
        """Return the bound addresses of a protocol; omits listeners without a port, such as UNIX sockets."""
        found = []
        for bound in self._bound:
            address = bound.port.getHost()
            if (
                bound.listener.protocol == protocol
                and not bound.listener.shared
                and isinstance(address, IPv4Address | IPv6Address)
            ):
                found.append(ListenerAddress(bound.listener.name, address.host, address.port))
        return found

    def unix_sockets(self) -> dict[str, str]:
        """Return the paths of the bound UNIX sockets, by the names of their listeners."""
        hosts = {bound.listener.name: bound.port.getHost() for bound in self._bound}
        return {name: os.fsdecode(at.name or b"") for name, at in hosts.items() if isinstance(at, UNIXAddress)}

    def open(self, only: str | None = None) -> None:
        """
        Start accepting connections.

        :param only: the name of a listener; None: all.
        """
        for bound in self._bound:
            if (only is None or bound.listener.name == only) and bound.listener.name not in self._pauses:
                self._reading(bound.port, True)

    def pause(self, listener: str, seconds: float) -> None:
        """Let connections to a listener wait in the kernel's queue for a while, as it has too many new ones."""
        pending = self._pauses.get(listener)
        if pending is not None:
            pending.reset(seconds)
            return

        def go_on() -> None:
            del self._pauses[listener]
            self.open(listener)

        self._pauses[listener] = self._reactor.callLater(seconds, go_on)
        for bound in self._bound:
            if bound.listener.name == listener:
                self._reading(bound.port, False)

    def close(self) -> Deferred[None]:
        """Stop accepting connections; existing ones continue."""
        for pause in self._pauses.values():
            pause.cancel()
        self._pauses.clear()
        stopped = [maybeDeferred(bound.port.stopListening) for bound in self._bound]
        return gatherResults(stopped, consumeErrors=True).addCallback(lambda _: None)

    def hang_up(self) -> None:
        """Close every connection after its current requests; continue to accept new ones."""
        for drain in self._drains():
            drain()

    def abort(self) -> None:
        """Close every connection at once, without an answer to anybody; continue to accept new ones."""
        for bound in self._bound:
            if hasattr(bound.factory, "abort"):
                bound.factory.abort()

    def transports(self) -> list[Any]:
        """Those of all connections of Kafka's protocol."""
        return [each for bound in self._bound for each in getattr(bound.factory, "transports", ())]

    def drain(self, release: Callable[[], None]) -> Deferred[None]:
        """
        Close every connection after its current requests.

        :param release: called when all are closing: answers requests that would wait for long.
        """
        waiting = [maybeDeferred(drain) for drain in self._drains()]
        release()
        self._bound = []
        return gatherResults(waiting, consumeErrors=True).addCallback(lambda _: None)

    def _drains(self) -> list[Callable[[], Any]]:
        return [bound.factory.drain for bound in self._bound if hasattr(bound.factory, "drain")]

    def _reading(self, port: Any, wanted: bool) -> None:
        # Ports of a Unix reactor are descriptors whose reading can be paused.
        change = getattr(port, "startReading" if wanted else "stopReading", None)
        if change is not None:
            change()

    def _endpoint(self, bound: _BoundListener) -> Endpoint:
        listener, address = bound.listener, bound.port.getHost()
        if listener.advertised is not None:
            host, port = listener.advertised
            port = port or getattr(address, "port", 0)
        else:
            host, port = getattr(address, "host", None) or "", getattr(address, "port", 0)
            if host in WILDCARDS and port:
                host = socket.gethostname()
                self._log.warn(
                    "listener {name} is on every interface and advertises {host}:{port}. If clients cannot reach this "
                    "address, set another with --advertise {name}=HOST:PORT",
                    name=listener.name,
                    host=host,
                    port=port,
                )
        return Endpoint(listener.name, host, port, listener.protocol)


def plugin_for(listener: Listener, plugins: Mapping[str, IProtocolPlugin]) -> IProtocolPlugin:
    """
    Return the protocol plugin of a listener.

    :raise ConfigError: the protocol is unknown.
    """
    plugin = plugins.get(listener.protocol)
    if plugin is None:
        known = ", ".join(sorted(plugins))
        raise ConfigError(f"listener {listener.name}: there is no protocol {listener.protocol!r}; there are: {known}")
    return plugin


def listener_tls(listener: Listener, *, between_brokers: bool = False) -> ListenerTls:
    """
    Return the TLS of a listener; nothing is loaded yet.

    :param between_brokers: whether brokers connect to each other there.
    :raise ConfigError: the packages for it are not installed.
    """
    try:
        from logbus.net import tls  # only listeners with TLS need its packages
    except ImportError as e:
        raise ConfigError(
            f"listener {listener.name} ({listener.endpoint}): TLS needs a package that is not installed ({e}): "
            f"{install_hint('tls')}"
        ) from e
    return tls.listener_tls(
        listener.name,
        listener.security_protocol,
        listener.endpoint,
        between_brokers=between_brokers,
        advertised=listener.advertised[0] if listener.advertised else None,
    )
