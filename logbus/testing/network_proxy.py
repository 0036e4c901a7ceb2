"""
The network of a cluster for tests: connections between its nodes pass through here, and can be cut, one way or both.

A node is a name.  Data sent over a cut link are held, as TCP sends them again, and come through when the cut ends;
connections stay open meanwhile, and new ones seem to be made and stay silent.  The proxy runs on a private reactor in a
thread of its own, without privileges.

``/proc`` shows which node's process has the other end of a connection.  Without ``/proc`` the connecting node is
unknown, and only cuts from and to all nodes have an effect.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Factory, Protocol
from zope.interface import implementer

from logbus.testing.private_reactor import close_reactor, private_reactor

T = TypeVar("T")

Way = tuple[str, str]
"""From a node to a node."""

SOMEBODY = ""
"""A connecting process that is not a node: a client."""
EVERYBODY = "*"

SECONDS = 10.0


@define(eq=False)
class NetworkProxy:
    """
    :ivar processes: tells the process of each node that runs.
    """

    processes: Callable[[], Mapping[str, int]]
    _cut: set[Way] = field(factory=set, init=False)
    _wires: set[_Wire] = field(factory=set, init=False)
    _reactor: Any = field(factory=private_reactor, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def start(self) -> None:
        """Start the proxy."""
        started = threading.Event()
        self._reactor.callWhenRunning(started.set)
        options = {"installSignalHandlers": False}
        self._thread = threading.Thread(
            target=self._reactor.run, kwargs=options, name="logbus-test-network", daemon=True
        )
        self._thread.start()
        started.wait(SECONDS)

    def stop(self) -> None:
        """Close all connections."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._reactor.callFromThread(self._reactor.stop)
            thread.join(SECONDS)
            # Not by the thread itself: it may have stopped before it is woken, by what was to be closed.
            if not thread.is_alive():
                close_reactor(self._reactor)

    def add(
        self,
        node: str,
        target: tuple[str, int],
        dialer: str | None = None,
        heard: Callable[[bytes], object] = lambda data: None,
    ) -> tuple[str, int]:
        """
        Another way to reach a node.

        :param target: where the node listens.
        :param dialer: the node that connects; None: it is looked up.
        :param heard: is given what ``node`` says first on each connection, in the network's thread.
        :return: the address to dial.
        """

        def listen() -> tuple[str, int]:
            factory = Factory()
            factory.noisy = False
            factory.buildProtocol = lambda address: _Dialing(self, node, target, dialer, heard)  # type: ignore[assignment,method-assign]
            port = self._reactor.listenTCP(0, factory, interface="127.0.0.1")
            return "127.0.0.1", port.getHost().port

        return self._call(listen)

    def cut(self, ways: Iterable[Way]) -> None:
        """Let nothing through from the first to the second of each; :data:`EVERYBODY` stands for all others."""
        self._call(lambda: self._set(self._cut | set(ways)))

    def mend(self, ways: Iterable[Way] | None = None) -> None:
        """End cuts (all of them without ``ways``); held data come through."""
        self._call(lambda: self._set(set() if ways is None else self._cut - set(ways)))

    def ways(self) -> set[Way]:
        """The present cuts."""
        return set(self._cut)

    def is_cut(self, sender: str, receiver: str) -> bool:
        """Whether nothing comes through; a node can always talk to itself."""
        if sender == receiver:
            return False
        ways = {(sender, receiver), (EVERYBODY, receiver), (sender, EVERYBODY)}
        return not self._cut.isdisjoint(ways)

    def who(self, end: tuple[str, int], other_end: tuple[str, int]) -> str:
        """The node that has this end of a connection."""
        inode = _inode_of(end, other_end)
        if inode is not None:
            for node, pid in self.processes().items():
                if _has_socket(pid, inode):
                    return node
        return SOMEBODY

    def _set(self, cut: set[Way]) -> None:
        self._cut = cut
        for wire in list(self._wires):
            wire.update()

    def _call(self, run: Callable[[], T]) -> T:
        """Run something in the network's thread."""
        if self._thread is None:
            return run()
        answer: Future[T] = Future()

        def call() -> None:
            try:
                answer.set_result(run())
            except BaseException as e:
                answer.set_exception(e)

        self._reactor.callFromThread(call)
        return answer.result(SECONDS)


@implementer(IPushProducer)
class _End(Protocol):
    """
    One end of a connection; what comes in here goes out at ``other``.

    :ivar node: the node at this end.
    """

    def __init__(self, wire: _Wire, node: str, heard: Callable[[bytes], object] | None = None) -> None:
        self.wire = wire
        self.node = node
        self.heard = heard
        self.other: _End | None = None
        self.held = deque[bytes]()
        self.full = False
        self.ended = False

    def connectionMade(self) -> None:
        self.transport.setTcpNoDelay(True)  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        heard, self.heard = self.heard, None
        if heard is not None:
            heard(data)
        self.held.append(data)
        self.update()

    def connectionLost(self, reason: Any = None) -> None:
        self.ended = True
        self.update()
        self.wire.update()

    def update(self) -> None:
        """Pass on what may pass."""
        other = self.other
        cut = other is None or self.wire.network.is_cut(self.node, other.node)
        if other is not None and not cut and not other.ended:
            while self.held:
                other.transport.write(self.held.popleft())  # type: ignore[union-attr]
            if self.ended:
                other.transport.loseConnection()  # type: ignore[union-attr]
        if not self.ended:
            if cut or self.full:
                self.transport.pauseProducing()  # type: ignore[union-attr]
            else:
                self.transport.resumeProducing()  # type: ignore[union-attr]

    # What the transport of ``other`` asks for when it has more than it can send.

    def pauseProducing(self) -> None:
        self.full = True
        self.update()

    def resumeProducing(self) -> None:
        self.full = False
        self.update()

    def stopProducing(self) -> None:
        pass


@define(eq=False)
class _Wire:
    """A connection with its two ends; the second one is made when the way to it is free."""

    network: NetworkProxy
    ends: list[_End] = field(factory=list)
    dial: Callable[[], None] | None = None

    def update(self) -> None:
        if all(end.ended for end in self.ends):
            self.network._wires.discard(self)
            return
        dial = self.dial
        if dial is not None:
            dial()
        for end in self.ends:
            end.update()


class _Dialing(_End):
    """The connecting end."""

    def __init__(
        self,
        network: NetworkProxy,
        node: str,
        target: tuple[str, int],
        dialer: str | None,
        heard: Callable[[bytes], object],
    ) -> None:
        super().__init__(_Wire(network), dialer or SOMEBODY)
        self.network = network
        self.known = dialer is not None
        self.to = node
        self.target = target
        self.first_heard = heard

    def connectionMade(self) -> None:
        super().connectionMade()
        if not self.known:
            peer: Any = self.transport.getPeer()  # type: ignore[union-attr]
            host: Any = self.transport.getHost()  # type: ignore[union-attr]
            self.node = self.network.who((peer.host, peer.port), (host.host, host.port))
        self.wire.ends.append(self)
        self.wire.dial = self._dial
        self.network._wires.add(self.wire)
        self.wire.update()

    def _dial(self) -> None:
        if self.network.is_cut(self.node, self.to):
            return
        self.wire.dial = None
        factory = Factory()
        factory.noisy = False
        factory.buildProtocol = lambda address: _End(self.wire, self.to, self.first_heard)  # type: ignore[assignment,method-assign]
        endpoint = TCP4ClientEndpoint(self.network._reactor, *self.target, timeout=5)
        endpoint.connect(factory).addCallbacks(self._connected, lambda _: self.transport.loseConnection())  # type: ignore[union-attr]

    def _connected(self, end: Any) -> None:
        self.other, end.other = end, self
        self.wire.ends.append(end)
        if not self.ended:
            self.transport.registerProducer(end, True)  # type: ignore[union-attr]
        end.transport.registerProducer(self, True)
        self.wire.update()


def _inode_of(end: tuple[str, int], other_end: tuple[str, int]) -> str | None:
    """
    The number of the socket at one end of a connection, as the system has it.

    Both ends are compared: connections to different servers can share the port that they come from.
    """
    wanted = [_in_hexadecimal(end), _in_hexadecimal(other_end)]
    try:
        lines = Path("/proc/net/tcp").read_text().splitlines()
    except OSError:
        return None
    for line in lines[1:]:
        words = line.split()
        if words[1:3] == wanted and words[9] != "0":
            return words[9]
    return None


def _in_hexadecimal(address: tuple[str, int]) -> str:
    """An address as ``/proc`` has it: four bytes as the machine has a number, which here is the wrong way round."""
    host, port = address
    return "".join(f"{int(part):02X}" for part in reversed(host.split("."))) + f":{port:04X}"


def _has_socket(pid: int, inode: str) -> bool:
    directory = f"/proc/{pid}/fd"
    wanted = f"socket:[{inode}]"
    try:
        for name in os.listdir(directory):
            try:
                if os.readlink(f"{directory}/{name}") == wanted:
                    return True
            except OSError:
                pass  # It was closed meanwhile.
    except OSError:
        pass  # The process is gone.
    return False
