"""
A client's connections to brokers (Kafka: NetworkClient, ClusterConnectionStates): one for each address and lane, made
when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectError, DNSLookupError
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.client.cluster.broker_outages import BrokerOutages, Outage
from logbus.client.cluster.cluster_metrics import ClusterMetrics
from logbus.client.cluster.last_resort import print_unseen
from logbus.client.retry import ClientClosed, NoBroker, Unreachable
from logbus.errors import ApiError, ErrorCode, LogbusError, RequestTimedOut
from logbus.net.channel import Channel
from logbus.net.connect import connect, negotiate
from logbus.security.client_security import ClientSecurity
from logbus.security.tls.tls_errors import describe_tls_error, is_tls_error
from logbus.timers import Timers

if TYPE_CHECKING:
    from twisted.internet.interfaces import IStreamClientEndpoint

CLOSED = "the client is closed: its Cluster was closed before what uses it"

_Key = tuple[str, int, str]


@define(eq=False)
class BrokerConnections:
    """
    Connections by address and lane.

    :ivar endpoint: makes the endpoint for a host and port.
    :ivar client_id: the client id in requests.
    :ivar timeout: seconds to wait for a response.
    :ivar connect_timeout: seconds to wait for a connection.
    :ivar security: TLS and SASL.
    :ivar metrics: counts of connections and requests.
    :ivar is_closed: no connections are made any more.
    """

    _log = Logger()

    _reactor: Any
    _endpoint: Callable[[str, int], IStreamClientEndpoint]
    _client_id: str = field(kw_only=True)
    _timeout: float = field(kw_only=True)
    _connect_timeout: float = field(kw_only=True)
    _security: ClientSecurity = field(factory=ClientSecurity, kw_only=True)
    metrics: ClusterMetrics = field(factory=ClusterMetrics, init=False)
    _timers: Timers = field(init=False)
    _channels: dict[_Key, Channel] = field(factory=dict, init=False)
    _connecting: dict[_Key, tuple[list[Deferred[Channel]], Deferred[Channel] | None]] = field(factory=dict, init=False)
    _given_up: set[_Key] = field(factory=set, init=False)
    _outages: BrokerOutages = field(factory=BrokerOutages, init=False)
    _lanes: int = field(default=0, init=False)
    is_closed: bool = field(default=False, init=False)

    @_timers.default
    def _make_timers(self) -> Timers:
        return Timers(self._reactor)

    @property
    def usable(self) -> Channel | None:
        """An open connection to any broker, without a lane."""
        for (_, _, lane), channel in list(self._channels.items()):
            if not lane and channel.usable:
                return channel
        return None

    def silences(self) -> dict[str, float]:
        """The seconds for which responses of each connected broker are overdue, by its address; not in an outage."""
        found: dict[str, float] = {}
        for (host, port, _), channel in self._channels.items():
            if channel.usable and f"{host}:{port}" not in self._outages:
                where = _shown(host, port)
                found[where] = max(found.get(where, 0.0), channel.silence)
        return found

    def lane(self, name: str) -> str:
        """A new lane."""
        self._lanes += 1
        return f"{name}-{self._lanes}"

    def close_lane(self, lane: str) -> None:
        """Close the connections of a lane, also those that are being made."""
        for key, (_, attempt) in list(self._connecting.items()):
            if key[2] == lane and attempt is not None:
                self._given_up.add(key)
                attempt.cancel()
        for key, channel in list(self._channels.items()):
            if key[2] == lane:
                del self._channels[key]
                channel.close()

    def close(self) -> Deferred[None]:
        """Close all connections, and make no more; fires when they are closed."""
        self.is_closed = True
        for _, attempt in list(self._connecting.values()):
            if attempt is not None:
                attempt.cancel()
        channels, self._channels = list(self._channels.values()), {}

        async def close() -> None:
            for lost in [channel.close() for channel in channels]:
                await lost
            self._timers.close()

        return Deferred.fromCoroutine(close())

    async def channel(self, host: str, port: int, lane: str = "", lends: bool = False) -> Channel:
        """
        A connection to an address; callers that ask meanwhile wait for the same one.

        :param lane: see :meth:`.Cluster.channel`, likewise ``lends``.
        :raises Unreachable: it cannot be made.
        :raises ClientClosed: :meth:`close` was called.
        :raises ApiError: the broker refuses our login, or its certificate is not trusted: not to be retried.
        """
        if self.is_closed:
            raise ClientClosed(CLOSED)
        key = (host, port, lane)
        channel = self._channels.get(key)
        if channel is not None and channel.usable:
            return channel
        mine: Deferred[Channel] = Deferred()
        if key in self._connecting:
            self._connecting[key][0].append(mine)
            return await mine
        waiting = [mine]
        self._connecting[key] = (waiting, None)
        attempt = self._connect(host, port, lends)
        self._connecting[key] = (waiting, attempt)
        late = False

        def expire() -> None:
            nonlocal late
            late = True
            attempt.cancel()

        timer = self._timers.call_later(self._connect_timeout, expire)

        def connected(result: Channel | Failure) -> None:
            timer.cancel()
            del self._connecting[key]
            is_given_up = key in self._given_up
            self._given_up.discard(key)
            if isinstance(result, Failure):
                error = result.value
                if late or isinstance(error, RequestTimedOut):
                    error = RequestTimedOut(f"no answer in {min(self._connect_timeout, self._timeout):g} s")
                is_heard = isinstance(error, LogbusError) and not isinstance(error, RequestTimedOut)
                kind = NoBroker if is_heard else Unreachable
                known: LogbusError = refusal(host, port, error) or kind(why_unreachable(host, port, error))
                if self.is_closed:
                    known = ClientClosed(CLOSED)
                if not is_given_up:
                    self._note_outage(host, port, known)
                    self.metrics.failed_connects += 1
                problem = Failure(known)
                for each in waiting:
                    each.errback(problem)
                return
            self._channels[key] = result
            self.metrics.connects += 1
            self.metrics.connections += 1
            outage = self._outages.reached(f"{host}:{port}")
            if outage is not None:
                self._tell_end(host, port, outage)
            result.when_lost().addCallback(lambda _: self._lost(host, port, result))
            for each in waiting:
                each.callback(result)

        attempt.addBoth(connected)
        return await mine

    def _connect(self, host: str, port: int, lends: bool) -> Deferred[Channel]:
        endpoint, security, begin = self._endpoint(host, port), self._security, negotiate
        if security.tls is not None:
            from logbus.net.tls_client import TLSClientEndpoint  # its packages are an extra

            endpoint = TLSClientEndpoint(endpoint, security.tls, host, self._reactor)
        if (login := security.login) is not None:
            from logbus.net.sasl_client import log_in  # most clients do not log in

            async def begin(channel: Channel) -> None:
                await negotiate(channel)
                await log_in(channel, lambda: login, self._timers)

        return connect(
            endpoint,
            self._timers,
            client_id=self._client_id,
            timeout=self._timeout,
            lends=lends,
            begin=begin,
            answered=self.metrics.answered,
        )

    def _lost(self, host: str, port: int, channel: Channel) -> None:
        """Count a timeout as an outage. A broker that closes a connection may have good reasons."""
        self.metrics.connections -= 1
        if isinstance(channel.ended_by, RequestTimedOut):
            self._note_outage(host, port, channel.ended_by)

    def _note_outage(self, host: str, port: int, error: LogbusError) -> None:
        if self.is_closed:
            return
        if self._outages.failed(f"{host}:{port}", self._reactor.seconds()):
            self._log.warn("{error}", error=error)
            print_unseen(self._reactor, str(error))

    def _tell_end(self, host: str, port: int, outage: Outage) -> None:
        seconds = self._reactor.seconds() - outage.since
        line = f"connected to {host}:{port} again, after {seconds:.0f} s and {outage.failures} failed attempts"
        self._log.info("{line}", line=line)
        print_unseen(self._reactor, line)


def refusal(host: str, port: int, error: BaseException | None) -> ApiError | None:
    """The error of a broker that refuses our login, or of one that we do not trust; None: of another kind."""
    if isinstance(error, ApiError):
        from logbus.net.sasl_client import LOGIN_ERRORS

        return error if error.code in LOGIN_ERRORS else None
    cause = None if error is None else error.__cause__
    if cause is None or not is_tls_error(cause):
        return None
    why = describe_tls_error(cause)
    return ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"no TLS with {_shown(host, port)}: {why}")


def why_unreachable(host: str, port: int, error: BaseException | None) -> str:
    """One line about a failed connection: the address, and the reason."""
    where = _shown(host, port)
    if isinstance(error, DNSLookupError):
        return f"cannot connect to {where}: the name {host} cannot be resolved"
    if isinstance(error, ConnectError):
        reason = (error.args[0] if error.args else None) or type(error).__doc__ or "no connection"
        if type(error).__name__ == "ConnectionRefusedError":
            reason = "connection refused"
        return f"cannot connect to {where}: {reason}"
    if isinstance(error, RequestTimedOut):
        return f"cannot connect to {where}: {error}"
    if isinstance(error, LogbusError):
        return f"no Kafka broker at {where}: {error}"
    if isinstance(error, CancelledError):
        return f"cannot connect to {where}: given up"
    return f"cannot connect to {where}: {error!r}"


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
