"""
Connections to the other brokers, one for each broker and purpose.

A long poll, or a slow metadata update, holds up all requests behind it on its connection, so each purpose has its own.
A connection begins with an introduction: this broker and the intended one prove to each other who they are.

A connection that cannot be made is retried with a growing backoff; until then requests fail at once. Every request ends
with an answer or an :class:`.ApiError`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.broker_secret import BrokerSecret
from logbus.cluster.cluster_metadata import BrokerImage, ClusterMetadata
from logbus.errors import ApiError, Disconnected, ErrorCode, RequestTimedOut, error_of
from logbus.metastore.znodes import FEATURE_LEVEL, LOWEST_FEATURE_LEVEL
from logbus.model import Endpoint
from logbus.net.channel import Channel
from logbus.net.channel_binding import channel_binding
from logbus.net.connect import connect
from logbus.net.keepalive import enable_keepalive
from logbus.net.receive_buffer import set_receive_buffer
from logbus.security.broker_challenge import BrokerChallenge, is_same
from logbus.timers import Timers
from logbus.wire.messages.inter_broker import (
    IntroduceRequest,
    IntroduceResponse,
    ProveIdentityRequest,
    ProveIdentityResponse,
)
from logbus.wire.version_range import VersionRange

CONTROL, METADATA_UPDATES, FORWARD, FETCH = "control", "metadata-updates", "forward", "fetch"
PLUGIN, LOOKUP = "plugin", "lookup"

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.05, 1.0
"""Seconds between two attempts to connect."""

CONNECT_SECONDS = 5.0
"""Timeout of one attempt."""

ConnectTo = Callable[[str, int], IStreamClientEndpoint]
"""Creates the endpoint for a host and port."""

LogIn = Callable[[Channel], Awaitable[None]]
"""Logs in on a new connection, and again before the session ends."""


def versions_of(feature_level: int) -> dict[int, VersionRange]:
    """
    The API versions to use with a broker of a feature level, by API key, whatever it offers to clients.

    :raise ApiError: UNSUPPORTED_VERSION: no released version has so low a level.
    """
    if feature_level < LOWEST_FEATURE_LEVEL:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"feature level {feature_level} cannot talk to other brokers")
    spoken = {1: 17, 23: 4, 24: 5, 27: 2, 32: 4, 83: 0, 84: 0, 85: 1, 86: 0, 87: 1}
    spoken |= dict.fromkeys((65, 66, *range(1001, 1009)), 0)
    # Asked of leaders with remote storage only, which serve it.
    spoken[2] = 11
    return {key: VersionRange(version, version) for key, version in spoken.items()}


def tcp(reactor: Any) -> ConnectTo:
    """Endpoints over TCP; names are resolved, addresses are not."""

    def endpoint(host: str, port: int) -> IStreamClientEndpoint:
        if ":" in host:
            return TCP6ClientEndpoint(reactor, host, port)
        if host.replace(".", "").isdigit():
            return TCP4ClientEndpoint(reactor, host, port)
        return HostnameEndpoint(reactor, host, port)

    return endpoint


def inter_broker(endpoints: Mapping[str, Endpoint], listener: str | None) -> Endpoint | None:
    """The endpoint of a broker for other brokers: its listener of that name, or (None) the first one."""
    if listener is None:
        return next(iter(endpoints.values()), None)
    return next((at for name, at in endpoints.items() if name.upper() == listener.upper()), None)


@frozen
class Identity:
    """This broker's identity, as an introduction sends it."""

    cluster_id: str
    broker_id: int
    broker_epoch: int


@define(eq=False)
class _Link:
    """
    The connection to one broker for one purpose.

    :ivar epoch: the registration of the broker that it is for.
    :ivar seen: whether the metadata has shown that registration; it is closed when they no longer do.
    :ivar waiting: callers that wait for the connection.
    :ivar pause: seconds to wait after the next failure; no attempt is made before ``not_before``.
    """

    epoch: int
    seen: bool = False
    channel: Channel | None = None
    connecting: Deferred[Channel] | None = None
    waiting: list[Deferred[Channel]] = field(factory=list)
    pause: float = FIRST_RETRY_SECONDS
    not_before: float = 0.0
    problem: str = ""
    dropped: bool = False


@define(eq=False)
class Peers:
    """
    The connections to all other brokers.

    :ivar identity: read for each introduction: the broker's epoch changes while it runs.
    :ivar secret: proves that this broker is one of the cluster.
    :ivar listener: the inter-broker listener; None: the first one of each broker.
    :ivar connect_to: creates endpoints; tests and the simulation have their own network.
    :ivar log_in: logs in by SASL, before the introduction; None: the brokers do not.
    :ivar receive_buffer: bytes that the kernel buffers of what is fetched from a leader; −1: as it likes.
    :ivar timeout: seconds for each answer, unless a request has its own; a connection whose other machine is silent for
        as long is closed.
    """

    identity: Callable[[], Identity]
    secret: BrokerSecret
    metadata: ClusterMetadata
    listener: str | None
    timers: Timers
    connect_to: ConnectTo
    random: Random
    timeout: float = 30.0
    log_in: LogIn | None = None
    receive_buffer: int = -1
    _links: dict[tuple[int, str], _Link] = field(factory=dict, init=False)
    _closed: bool = field(default=False, init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self.metadata.subscribe(self._metadata_changed)

    def request(
        self, broker: BrokerImage, message: Any, purpose: str = CONTROL, timeout: float | None = None
    ) -> Deferred[Any]:
        """
        Send a request to a broker.

        :param broker: the broker, with its epoch.
        :param timeout: seconds for the answer.
        :return: fires with the response, whatever errors are in it.
        :raise ApiError: BROKER_NOT_AVAILABLE: it was not sent; NETWORK_EXCEPTION or REQUEST_TIMED_OUT: it may have been
            sent, and no answer came.
        """
        return Deferred.fromCoroutine(self._request(broker, message, purpose, timeout))

    async def _request(self, broker: BrokerImage, message: Any, purpose: str, seconds: float | None) -> Any:
        channel = await self.channel(broker, purpose)
        try:
            return await channel.request(message, timeout=self.timeout if seconds is None else seconds)
        except RequestTimedOut as e:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"broker {broker.broker_id}: {e}") from None
        except Disconnected as e:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, f"broker {broker.broker_id}: {e}") from None

    def broker(self, broker_id: int) -> BrokerImage:
        """
        A live broker.

        :raise ApiError: BROKER_NOT_AVAILABLE.
        """
        image = self.metadata.brokers.get(broker_id)
        if image is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not known to be alive")
        return image

    def channel_for(self, broker_id: int, purpose: str) -> Deferred[Channel]:
        """As :meth:`channel`, by the broker's id."""
        try:
            return self.channel(self.broker(broker_id), purpose)
        except ApiError as e:
            return fail(e)

    def channel(self, broker: BrokerImage, purpose: str) -> Deferred[Channel]:
        """
        The introduced connection to a broker; it is kept, and shared by all requests of the same purpose.

        :raise ApiError: BROKER_NOT_AVAILABLE.
        """
        key = (broker.broker_id, purpose)
        link = self._links.get(key)
        if link is not None and link.epoch < broker.epoch:
            self._drop(key, "it has restarted")
            link = None
        if self._closed or (link is not None and link.epoch > broker.epoch):
            why = "this broker stops" if self._closed else "it has restarted"
            return fail(_unavailable(broker.broker_id, why))
        if link is None:
            link = self._links[key] = _Link(broker.epoch, seen=self._shows(broker.broker_id, broker.epoch))
        if link.channel is not None:
            if link.channel.usable:
                return succeed(link.channel)
            link.channel = None
        if link.connecting is None and self.timers.clock.seconds() < link.not_before:
            return fail(_unavailable(broker.broker_id, link.problem))
        waiting: Deferred[Channel] = Deferred()
        link.waiting.append(waiting)
        if link.connecting is None:
            self._connect(broker, purpose, link)
        return waiting

    def forget(self, broker: BrokerImage, purpose: str) -> None:
        """Close a connection that is not needed any more."""
        link = self._links.get((broker.broker_id, purpose))
        if link is not None and link.epoch == broker.epoch:
            self._drop((broker.broker_id, purpose), "the connection is not needed any more")

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for key in list(self._links):
            self._drop(key, "this broker stops")

    # How it works.

    def _connect(self, broker: BrokerImage, purpose: str, link: _Link) -> None:
        try:
            at = self._endpoint_of(broker)
        except ApiError as e:
            self._failed(broker, link, e.message)
            return
        connecting = connect(
            self.connect_to(at.host, at.port),
            self.timers,
            client_id=f"broker-{self.identity().broker_id}-{purpose}",
            timeout=min(self.timeout, CONNECT_SECONDS),
            lends=purpose == FETCH,
            begin=partial(self._begin, broker, purpose),
        )
        link.connecting = connecting
        connecting.addCallbacks(
            self._connected,
            lambda failure: self._failed(broker, link, _reason(failure, f"{at.host}:{at.port}")),
            callbackArgs=(link,),
        )
        connecting.addErrback(lambda failure: self._log.failure("a connection to a broker failed", failure))

    def _endpoint_of(self, broker: BrokerImage) -> Endpoint:
        at = inter_broker(broker.endpoints, self.listener)
        if at is None:
            wanted = "a Kafka listener" if self.listener is None else f"a listener {self.listener}"
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"it has not registered {wanted}")
        return at

    async def _begin(self, broker: BrokerImage, purpose: str, channel: Channel) -> None:
        if purpose == FETCH:
            set_receive_buffer(channel.transport, self.receive_buffer)
        if self.log_in is not None:
            await self.log_in(channel)
        await self._introduce(broker, channel)

    async def _introduce(self, broker: BrokerImage, channel: Channel) -> None:
        enable_keepalive(channel.transport, self.timeout)
        me = self.identity()
        request = IntroduceRequest(
            cluster_id=me.cluster_id,
            broker_id=me.broker_id,
            broker_epoch=me.broker_epoch,
            receiver_id=broker.broker_id,
            feature_level=FEATURE_LEVEL,
            nonce=self.secret.nonce(),
        )
        answer: IntroduceResponse = await channel.request(request, 1)
        if answer.error_code:
            raise error_of(answer.error_code, answer.error_message)
        await self._prove(request, answer, channel)
        channel.versions = versions_of(min(FEATURE_LEVEL, answer.feature_level))

    async def _prove(self, request: IntroduceRequest, answer: IntroduceResponse, channel: Channel) -> None:
        """
        Prove who this broker is, and check that the other one is what was asked for.

        Its proof is judged second: if it has an old secret, it finds that by ours.
        """
        challenge = BrokerChallenge(
            request.cluster_id,
            request.broker_id,
            request.broker_epoch,
            request.feature_level,
            request.nonce,
            request.receiver_id,
            answer.feature_level,
            answer.nonce,
            channel_binding(channel.transport),
        )
        proof = ProveIdentityRequest(proof=challenge.proof_of_sender(self.secret.value))
        proved: ProveIdentityResponse = await channel.request(proof, 0)
        if not await self.secret.fits(lambda secret: is_same(answer.proof, challenge.proof_of_receiver(secret))):
            raise ApiError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"it does not prove that it is broker {request.receiver_id}"
            )
        if proved.error_code:
            raise error_of(proved.error_code, proved.error_message)

    def _connected(self, channel: Channel, link: _Link) -> None:
        link.connecting = None
        if link.dropped:
            channel.close()
            return
        link.channel = channel
        link.pause, link.problem = FIRST_RETRY_SECONDS, ""
        waiting, link.waiting = link.waiting, []
        for one in waiting:
            if not one.called:
                one.callback(channel)

    def _failed(self, broker: BrokerImage, link: _Link, why: str) -> None:
        link.connecting = None
        if link.dropped:
            return
        if why != link.problem:
            link.problem = why
            self._log.warn("broker {broker} is out of reach: {why}", broker=broker.broker_id, why=why)
        link.not_before = self.timers.clock.seconds() + link.pause * self.random.uniform(0.8, 1.0)
        link.pause = min(MAX_RETRY_SECONDS, 2 * link.pause)
        waiting, link.waiting = link.waiting, []
        for one in waiting:
            if not one.called:
                one.errback(_unavailable(broker.broker_id, why))

    def _shows(self, broker_id: int, epoch: int) -> bool:
        image = self.metadata.brokers.get(broker_id)
        return image is not None and image.epoch == epoch

    def _metadata_changed(self) -> None:
        for (broker_id, purpose), link in list(self._links.items()):
            image = self.metadata.brokers.get(broker_id)
            if image is not None and image.epoch == link.epoch:
                link.seen = True
            elif image is not None and image.epoch > link.epoch:
                self._drop((broker_id, purpose), "it has restarted")
            elif link.seen:
                self._drop((broker_id, purpose), "its registration is gone")

    def _drop(self, key: tuple[int, str], why: str) -> None:
        link = self._links.pop(key)
        link.dropped = True
        if link.connecting is not None:
            link.connecting.cancel()
        if link.channel is not None:
            link.channel.close()
        waiting, link.waiting = link.waiting, []
        for one in waiting:
            if not one.called:
                one.errback(_unavailable(key[0], why))


def _unavailable(broker_id: int, why: str) -> ApiError:
    return ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} cannot be asked: {why}")


def _reason(failure: Failure, where: str) -> str:
    """The reason why a broker cannot be reached, for people."""
    return f"{where}: {failure.getErrorMessage()}"
