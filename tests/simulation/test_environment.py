"""The simulated environment: clock, network, disks, metadata store."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP4ServerEndpoint
from twisted.internet.error import AlreadyCalled, ConnectionLost, ConnectionRefusedError, TimeoutError
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import SynchronousTestCase

from logbus.metastore.operations import SessionState
from logbus.net.keepalive import enable_keepalive
from logbus.testing.simulation.environment.inodes import Crashed, Directory, PowerCutOutcome
from logbus.testing.simulation.environment.memory_disk import IOPool
from logbus.testing.simulation.environment.network import Network
from logbus.testing.simulation.environment.node_reactor import NodeReactor
from logbus.testing.simulation.environment.simulated_store import Ensemble, SimulatedStore
from logbus.testing.simulation.environment.timed_disk import TimedDisk
from logbus.testing.simulation.environment.virtual_clock import VirtualClock


class Peer(Protocol):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.received = b""
        self.lost: Any = None

    def dataReceived(self, data: bytes) -> None:
        self.received += data

    def connectionLost(self, reason: Any = None) -> None:
        self.lost = reason.type


class ClockTests(SynchronousTestCase):
    """Virtual time."""

    def setUp(self) -> None:
        self.clock = VirtualClock()
        self.reactor = NodeReactor(self.clock, Network(self.clock, Random(1)), "10.0.0.1")
        self.seen: list[tuple[float, str]] = []

    def note(self, what: str) -> None:
        self.seen.append((self.clock.now, what))

    def test_order(self) -> None:
        """What is due happens in order, and time is that of the event; what was cancelled does not."""
        self.reactor.callLater(2, self.note, "second")
        self.reactor.callLater(1, self.note, "first")
        self.reactor.callLater(1.5, self.note, "never").cancel()
        late = self.reactor.callLater(1, self.note, "moved")
        late.reset(3)
        self.clock.run_until(10)
        self.assertEqual(self.seen, [(1, "first"), (2, "second"), (3, "moved")])
        self.assertEqual(self.clock.now, 10)
        self.assertFalse(late.active())
        self.assertRaises(AlreadyCalled, late.cancel)

    def test_a_frozen_process_catches_up(self) -> None:
        """What was due while it stood still happens when it goes on, in order."""
        self.reactor.callLater(1, self.note, "a")
        self.reactor.callLater(2, self.note, "b")
        self.reactor.freeze()
        self.clock.run_until(5)
        self.assertEqual(self.seen, [])
        self.reactor.thaw()
        self.clock.run_until(5)
        self.assertEqual(self.seen, [(5, "a"), (5, "b")])

    def test_dead_process(self) -> None:
        """Its timers and connections have no effect any more."""
        self.reactor.callLater(1, self.note, "a")
        self.reactor.dead = True
        self.clock.run_until(5)
        self.assertEqual(self.seen, [])

    def test_a_failing_event_ends_nothing(self) -> None:
        """An error is logged, as a reactor does, and all else goes on."""
        self.reactor.callLater(1, lambda: 1 // 0)
        self.reactor.callLater(2, self.note, "b")
        self.clock.run_until(5)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(self.seen, [(2, "b")])


class NetworkTests(SynchronousTestCase):
    """Two hosts and a connection."""

    def setUp(self) -> None:
        self.clock = VirtualClock()
        self.network = Network(self.clock, Random(1))
        self.here = NodeReactor(self.clock, self.network, "a")
        self.there = NodeReactor(self.clock, self.network, "b")
        for node in (self.here, self.there):
            self.network.started(node)
        self.served: list[Peer] = []
        factory = Factory.forProtocol(self.serve)
        self.successResultOf(TCP4ServerEndpoint(self.there, 9092).listen(factory))

    def serve(self) -> Peer:
        self.served.append(Peer())
        return self.served[-1]

    def connect(self, port: int = 9092, host: str = "b", timeout: float = 5) -> Deferred[Any]:
        factory = Factory.forProtocol(Peer)
        connecting: Deferred[Any] = TCP4ClientEndpoint(self.here, host, port, timeout=timeout).connect(factory)
        return connecting

    def pair(self) -> tuple[Peer, Peer]:
        connecting = self.connect()
        self.advance(1)
        return self.successResultOf(connecting), self.served[-1]

    def advance(self, seconds: float) -> None:
        self.clock.run_until(self.clock.now + seconds)

    def test_talk(self) -> None:
        """Bytes arrive in order, both ways; an orderly end reaches the other side after them."""
        client, server = self.pair()
        for i in range(50):
            client.transport.write(b"%d," % i)
        server.transport.write(b"hello")
        client.transport.loseConnection()
        self.advance(1)
        self.assertEqual(server.received, b"".join(b"%d," % i for i in range(50)))
        self.assertIsNotNone(server.lost)
        self.assertIsNotNone(client.lost)
        self.assertEqual(self.network.streams, {})

    def test_refused(self) -> None:
        """Nobody listens."""
        connecting = self.connect(1)
        self.advance(1)
        self.failureResultOf(connecting, ConnectionRefusedError)

    def test_machine_without_power(self) -> None:
        """A machine without power says nothing at all."""
        connecting = self.connect(host="c")
        self.advance(4)
        self.assertNoResult(connecting)
        self.advance(2)
        self.failureResultOf(connecting, TimeoutError)

    def test_a_cut_holds_back(self) -> None:
        """What is sent into a cut arrives after it is mended; the other direction may go on."""
        client, server = self.pair()
        self.network.cut("a", "b")
        client.transport.write(b"late")
        server.transport.write(b"soon")
        self.advance(10)
        self.assertEqual((client.received, server.received), (b"soon", b""))
        self.network.mend("a", "b")
        self.advance(20)
        self.assertEqual(server.received, b"late")

    def test_a_reset_reaches_both(self) -> None:
        """Both ends lose the connection."""
        client, server = self.pair()
        self.assertEqual(self.network.reset("a", "b"), 1)
        self.advance(1)
        self.assertEqual((client.lost, server.lost), (ConnectionLost, ConnectionLost))

    def test_a_killed_process(self) -> None:
        """Its kernel hangs up for it."""
        client, _ = self.pair()
        self.there.dead = True
        self.network.ended(self.there, silently=False)
        self.advance(1)
        self.assertIsNotNone(client.lost)

    def test_half_open(self) -> None:
        """Of a power cut nobody hears; who sends finds out once the machine is back."""
        client, _ = self.pair()
        self.there.dead = True
        self.network.ended(self.there, silently=True)
        client.transport.write(b"are you there?")
        self.advance(60)
        self.assertIsNone(client.lost)
        self.network.started(NodeReactor(self.clock, self.network, "b"))
        self.advance(5)
        self.assertEqual(client.lost, ConnectionLost)

    def test_patience_ends(self) -> None:
        """Who wants it so loses a connection to a machine that is silent; a short silence is borne."""
        for silence in ("cut", "power"):
            (client, server), (patient, _) = self.pair(), self.pair()
            enable_keepalive(patient.transport, 6)
            self.network.cut("b", "a")
            self.advance(5)
            self.network.mend("b", "a")
            self.advance(20)
            self.assertIsNone(patient.lost)
            if silence == "cut":
                self.network.cut("b", "a")
            else:
                self.there.dead = True
                self.network.ended(self.there, silently=True)
            self.advance(5)
            self.assertIsNone(patient.lost)
            self.advance(2)
            self.assertEqual((patient.lost, client.lost, server.lost), (ConnectionLost, None, None))
            self.network.mend("b", "a")

    def test_stalled_reader(self) -> None:
        """Data sent to it wait, and the sender is told to pause."""
        client, server = self.pair()
        calls: list[str] = []

        class Producer:
            def pauseProducing(self) -> None:
                calls.append("pause")

            def resumeProducing(self) -> None:
                calls.append("resume")

            def stopProducing(self) -> None:
                calls.append("stop")

        client.transport.registerProducer(Producer(), True)
        server.transport.pauseProducing()
        client.transport.write(bytes(1 << 20))
        self.advance(1)
        self.assertEqual((calls, server.received), (["pause"], b""))
        server.transport.resumeProducing()
        self.advance(1)
        self.assertEqual((calls, len(server.received)), (["pause", "resume"], 1 << 20))


class DiskTests(SynchronousTestCase):
    """A disk whose lanes take time."""

    def setUp(self) -> None:
        self.clock = VirtualClock()
        self.reactor = NodeReactor(self.clock, Network(self.clock, Random(1)), "a")
        self.disk = TimedDisk("/log", Directory(), self.clock, self.reactor, Random(1))
        self.file = self.disk.open("x", create=True)
        self.disk.sync_directory("")

    def test_a_sync_takes_time(self) -> None:
        """It is done, and answered, some time after it was asked for."""
        self.file.write(0, [b"abc"])
        self.disk.sync_seconds = 1.0
        synced = self.disk.submit(IOPool.SYNC, self.file.sync)
        self.clock.run_until(0.4)
        self.assertNoResult(synced)
        self.clock.run_until(2)
        self.successResultOf(synced)
        self.assertEqual(self.disk.after_power_cut(PowerCutOutcome("lose")).read("x"), b"abc")

    def test_power_cut_before_the_sync(self) -> None:
        """The write is lost, and its response never comes."""
        self.file.write(0, [b"abc"])
        self.disk.sync_seconds = 100.0
        synced = self.disk.submit(IOPool.SYNC, self.file.sync)
        self.reactor.dead = True
        self.clock.run_until(500)
        self.assertNoResult(synced)
        self.assertEqual(self.disk.after_power_cut(PowerCutOutcome("lose")).read("x"), b"")

    def test_a_bit_flips(self) -> None:
        """For readers and after a power cut; what was not synced stays unsynced."""
        file = self.disk.open("file", create=True)
        file.write(0, [b"abc"])
        file.sync()
        self.disk.sync_directory("")
        file.write(3, [b"d"])
        self.assertEqual(self.disk.flip("file", 1, 0), ord("c"))
        self.assertEqual(self.disk.read("file"), b"accd")
        self.assertEqual(self.disk.after_power_cut(PowerCutOutcome("lose")).read("file"), b"acc")

    def test_a_crash_in_the_middle(self) -> None:
        """At a step the machine stops, is told of once, and writes nothing more."""
        told: list[int] = []
        self.disk.crash_at = self.disk.steps + 1
        self.disk.on_crash = lambda: told.append(1)
        self.file.write(0, [b"a"])
        for _ in range(2):
            self.assertRaises(Crashed, self.file.write, 1, [b"b"])
        self.assertEqual((told, self.file.size()), ([1], 1))


class StoreTests(SynchronousTestCase):
    """The metadata store from afar."""

    def setUp(self) -> None:
        self.clock = VirtualClock()
        network = Network(self.clock, Random(1))
        self.ensemble = Ensemble(time=self.clock, random=Random(1), session_timeout=6.0)
        self.stores = [SimulatedStore(self.ensemble, NodeReactor(self.clock, network, host)) for host in "ab"]
        self.store, self.other = self.stores
        self.states: list[SessionState] = []
        self.store.subscribe(self.states.append)
        for store in self.stores:
            store.open()
        self.advance(1)
        self.store.create("/mine", b"", ephemeral=True)
        self.advance(1)

    def advance(self, seconds: float) -> None:
        self.clock.run_until(self.clock.now + seconds)

    @property
    def is_there(self) -> bool:
        return self.ensemble.tree.exists("/mine") is not None

    def test_requests_take_time(self) -> None:
        """An answer comes later; watches are told before what is answered after them."""
        told: list[Any] = []
        self.other.exists("/new", told.append)
        self.advance(1)
        asked = self.store.create("/new")
        self.assertNoResult(asked)
        self.advance(1)
        self.successResultOf(asked)
        self.assertEqual([event.path for event in told], ["/new"])

    def test_a_short_cut(self) -> None:
        """It is noticed, and the session lives on."""
        self.store.cut(noticed=True)
        self.advance(1)
        self.store.mend()
        self.advance(2)
        self.assertEqual(self.states, [SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.CONNECTED])
        self.assertTrue(self.is_there)

    def test_a_long_cut(self) -> None:
        """The session ends at the servers; the client hears of that when it is back."""
        self.store.cut(noticed=False)
        self.advance(7)
        self.assertFalse(self.is_there)
        self.assertEqual(self.states[-1], SessionState.SUSPENDED)
        self.store.mend()
        self.advance(2)
        self.assertEqual(self.states[-2:], [SessionState.LOST, SessionState.CONNECTED])

    def test_frozen_process(self) -> None:
        """Its session expires, and for a moment after it continues it does not know."""
        self.store.reactor.freeze()
        self.store.froze()
        self.advance(7)
        self.assertFalse(self.is_there)
        self.store.reactor.thaw()
        self.store.thawed()
        self.assertEqual(self.store.state, SessionState.CONNECTED)
        self.advance(2)
        self.assertIn(SessionState.LOST, self.states)

    def test_a_dead_process(self) -> None:
        """Its session ends by silence."""
        self.store.reactor.dead = True
        self.store.died()
        self.advance(1)
        self.assertTrue(self.is_there)
        self.advance(6)
        self.assertFalse(self.is_there)
