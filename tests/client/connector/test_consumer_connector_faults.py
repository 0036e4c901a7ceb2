"""
Members that die, are cut off or lose their sessions at any request to ZooKeeper: the others take over, and only
processed records are committed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from twisted.internet.defer import Deferred
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import LogbusError
from logbus.metastore.operations import SessionState
from tests.client.connector.kit import SESSION_SECONDS, FaultyStore, Group, GroupCase, Reader

Fault = Callable[[Group, FaultyStore], None]

REBALANCED = 6.0
STEP = 0.25
MAX_WAIT = 2.0
"""Seconds that a broker may take for a fetch: not fetches are under test, and they are most of the work."""


def killed(group: Group, store: FaultyStore) -> None:
    """The process ends before its request arrives."""
    _reader(group, store).die()


def killed_late(group: Group, store: FaultyStore) -> None:
    """The process ends before the answer arrives."""
    _reader(group, store).die(applied=True)


def cut_off(group: Group, store: FaultyStore) -> None:
    """The connection breaks before the request arrives, and is mended soon."""
    store.suspend()
    group.clock.callLater(1.0, store.resume)


def cut_off_late(group: Group, store: FaultyStore) -> None:
    """The connection breaks before the answer arrives, and is mended soon."""
    store.suspend(applied=True)
    group.clock.callLater(1.0, store.resume)


def expired(group: Group, store: FaultyStore) -> None:
    """The session ends, and another one begins."""
    store.expire()


def expired_while_away(group: Group, store: FaultyStore) -> None:
    """The connection breaks, the session ends unnoticed, and others take over before it is mended."""
    store.suspend(applied=True)
    group.clock.callLater(1.0, store.expire)
    group.clock.callLater(3.0, store.resume)


def session_forgotten(group: Group, store: FaultyStore) -> None:
    """Another session begins while the one before still holds its nodes."""
    store.forget_session()


def _reader(group: Group, store: FaultyStore) -> Reader:
    return next(each for each in group.readers if each.store is store)


class FaultAtAnyRequestTests(SynchronousTestCase):
    """
    Two members read, a third comes; one of them meets a fault at its n-th request, for every n of a run without faults.
    """

    def play(self, victim: int, fault: Fault | None, at: int, exclusive: bool) -> int:
        """One run; how many requests the victim made."""
        group = Group()
        group.topic("t", 4)
        for partition in range(4):
            group.brokers.topics["t"][partition].put(b"1", b"2")
        for number, name in enumerate("abc"):
            reader = group.reader(name, seconds=0.1, max_wait=MAX_WAIT)
            if number == victim and fault is not None:
                reader.store.fault = at, lambda store: fault(group, store)
            reader.read({"t": 2})
            for _ in range(6):
                group.settle(STEP, STEP)
                if exclusive:
                    group.check_exclusive()
        made = group.readers[victim].store.requests
        for partition in range(4):
            group.brokers.topics["t"][partition].put(b"3")
        group.settle(REBALANCED + (SESSION_SECONDS if group.readers[victim].store.dead else 0), STEP)
        group.check_balanced("t")
        group.check_nothing_skipped()
        everything = {("t", partition, offset) for partition in range(4) for offset in range(3)}
        self.assertEqual(group.done(), everything)
        alive = [each for each in group.readers if each.alive]
        self.assertEqual(group.names("/consumers/g/ids"), sorted(each.connector.consumer_id for each in alive))
        self.assertEqual([each.errors for each in alive], [[] for _ in alive])
        self.assertEqual([group.committed("t", partition) for partition in range(4)], [3, 3, 3, 3])
        group.stop()
        group.settle(MAX_WAIT, MAX_WAIT)
        if len(alive) == 3:
            self.assertEqual(group.clock.getDelayedCalls(), [])
        return made

    def everywhere(self, fault: Fault, *, exclusive: bool = True) -> None:
        """Each member in turn, at each of its requests."""
        for victim in range(3):
            requests = self.play(victim, None, 0, True)
            self.assertGreater(requests, 15)
            for at in range(1, requests + 1):
                try:
                    self.play(victim, fault, at, exclusive)
                except BaseException as e:
                    e.add_note(f"{fault.__name__}: member {victim} at request {at} of {requests}")
                    raise

    def test_killed(self) -> None:
        """The others take over all partitions, and continue at the committed offsets."""
        self.everywhere(killed)

    def test_killed_late(self) -> None:
        """The same, where its last request was served."""
        self.everywhere(killed_late)

    def test_cut_off(self) -> None:
        """A member finds out which of its requests were served, and all members get their partitions."""
        self.everywhere(cut_off)

    def test_cut_off_late(self) -> None:
        """The same, where its last request was served."""
        self.everywhere(cut_off_late)

    def test_expired(self) -> None:
        """Who loses its session delivers nothing more, and joins again."""
        self.everywhere(expired)

    def test_session_forgotten(self) -> None:
        """A member takes over nodes of its earlier session before they vanish with it."""
        self.everywhere(session_forgotten)

    def test_session_expires_while_disconnected(self) -> None:
        """
        A member whose session expires unnoticed reads on, beside the new owners, without committing; when it is back it
        joins again.
        """
        self.everywhere(expired_while_away, exclusive=False)


class RandomFaultTests(SynchronousTestCase):
    """Members come, go, die, are cut off and lose their sessions, all at once and at random."""

    def play(self, seed: int) -> None:
        random = Random(seed)
        group = Group()
        group.topic("t", 3)
        count = 0

        def alive() -> list[Reader]:
            return [each for each in group.readers if each.alive and each not in gone]

        def away(reader: Reader) -> None:
            if reader.store.state is SessionState.CONNECTED:
                reader.store.suspend(applied=random.random() < 0.5)
                group.clock.callLater(random.uniform(0, 3), reader.store.resume)

        def ends(reader: Reader) -> None:
            gone.append(reader)
            leaving.append(reader.connector.shutdown())

        gone: list[Reader] = []
        leaving: list[Deferred[None]] = []
        faults: list[Callable[[Reader], None]] = [
            away,
            away,
            ends,
            lambda reader: reader.die(applied=random.random() < 0.5),
            lambda reader: reader.store.expire() if reader.store.state is SessionState.CONNECTED else None,
            lambda reader: reader.store.forget_session() if reader.store.state is SessionState.CONNECTED else None,
        ]
        for number in range(40):
            if len(alive()) < 2 or (len(alive()) < 5 and random.random() < 0.2):
                group.reader(f"{number}", seconds=random.choice([0, 0.05])).read({"t": random.randint(1, 3)})
            elif random.random() < 0.5:
                random.choice(faults)(random.choice(alive()))
            if random.random() < 0.05:
                group.topic("t", len(group.brokers.topics["t"]) + 1)
            random.choice(group.brokers.topics["t"]).put(b"%d" % number)
            count += 1
            group.settle(random.uniform(0, 0.6), 0.1)
            group.check_nothing_skipped()
        group.settle(2 * SESSION_SECONDS + 4, STEP)
        group.check_balanced("t")
        group.check_nothing_skipped()
        self.assertEqual(len(group.done()), count)
        self.assertEqual([each.errors for each in alive()], [[] for _ in alive()])
        for each in leaving:
            self.successResultOf(each)
        group.stop()

    def test_at_random(self) -> None:
        """In the end every partition has one owner, every record was done, and nothing committed was left undone."""
        for seed in range(25):
            try:
                self.play(seed)
            except BaseException as e:
                e.add_note(f"seed {seed}")
                raise


class AwayTests(GroupCase):
    """ZooKeeper out of reach."""

    def setUp(self) -> None:
        super().setUp()
        self.logged: list[str] = []
        globalLogPublisher.addObserver(self._hear)
        self.addCleanup(globalLogPublisher.removeObserver, self._hear)

    def _hear(self, event: dict[str, object]) -> None:
        if event.get("log_format"):
            self.logged.append(str(event["log_format"]).format(**event))

    def said(self, words: str) -> int:
        return len([line for line in self.logged if words in line])

    def test_read_on(self) -> None:
        """It reads on, cannot commit, says so once, and commits all when ZooKeeper is back."""
        a = self.group.reader("a").read({"t": 1})
        self.group.settle(1)
        a.store.suspend()
        self.put(b"1", b"2")
        self.group.settle(5)
        self.assertEqual(a.values, [b"1", b"2"])
        self.assertEqual(self.group.committed("t", 0), 0)
        self.assertEqual(self.said("reads on, but cannot commit until it is back"), 1)
        self.assertEqual(self.said("offsets cannot be committed: ZooKeeper is unreachable"), 1)
        self.failureResultOf(a.connector.commit_offsets(), LogbusError)
        a.store.resume()
        self.group.settle(2)
        self.assertEqual(self.group.committed("t", 0), 2)
        self.assertEqual(self.said("commits offsets again"), 1)
        self.group.check_balanced("t")

    def test_changes_while_disconnected(self) -> None:
        """Watches end with a connection: after a reconnect everything is read again."""
        a = self.group.reader("a").read({"t": 1})
        self.group.settle(1)
        a.store.suspend()
        self.group.topic("t", 6)
        b = self.group.reader("b").read({"t": 1})
        self.group.settle(1)
        self.assertEqual(len(b.connector.owned), 0 + 2)
        a.store.resume()
        self.group.settle(1)
        self.group.check_balanced("t")

    def test_expired(self) -> None:
        """Without a session nothing is delivered any more, not even what was read ahead, and nothing is committed."""
        self.put(*(b"%d" % n for n in range(100)))
        a = self.group.reader("a", seconds=0.3).read({"t": 1})
        b = self.group.reader("b").read({"t": 1})
        self.group.settle(1)
        taken = len(a.taken)
        committed = self.group.committed("t", 0)
        self.assertGreater(taken, 1)
        a.store.suspend()
        a.store.expire()
        self.group.settle(2)
        self.assertGreater(len(a.taken), taken)
        self.assertEqual(len(b.done), 100 - (committed or 0))
        taken = len(a.taken)
        self.put(b"new")
        a.store.resume()
        self.assertEqual(a.connector.owned, frozenset())
        self.group.settle(0.2)
        self.assertEqual(self.group.names("/consumers/g/ids"), ["g_a", "g_b"])
        self.group.settle(5)
        self.group.check_balanced("t")
        self.assertEqual(self.said("it has lost its 2 partitions"), 1)

    def test_nodes_of_a_session_before(self) -> None:
        """Nodes that would go away with another session of ours are made anew at once."""
        a = self.group.reader("a").read({"t": 1})
        self.group.settle(1)
        a.store.forget_session()
        self.group.settle(1)
        for path in ("/consumers/g/ids/g_a", "/consumers/g/owners/t/0"):
            self.assertEqual(self.group.ensemble.tree.nodes[path].row.owner, a.store.session_id)

    def test_unneeded_release(self) -> None:
        """A partition that was to be released, and is kept after all, continues after the current record."""
        self.put(b"1", b"2", partition=3)
        a = self.group.reader("a", seconds=1.0, finish_timeout=10.0).read({"t": 1})
        self.group.settle(0.3)
        b = self.group.reader("b").read({"t": 1})
        self.group.settle(0.2)
        self.assertEqual(len(a.connector.owned), 2)
        a.store.suspend()
        self.group.now(b.connector.shutdown())
        a.store.resume()
        self.group.settle(0.1)
        self.assertEqual((len(a.connector.owned), a.values), (4, []))
        self.group.settle(3)
        self.assertEqual(a.values, [b"1", b"2"])

    def test_leaving_while_disconnected(self) -> None:
        """Leaving takes no time; the others notice when the session expires."""
        a = self.group.reader("a").read({"t": 1})
        b = self.group.reader("b").read({"t": 1})
        self.group.settle(1)
        a.store.suspend()
        done = a.connector.shutdown()
        self.group.settle(0.1)
        self.successResultOf(done)
        self.assertEqual(self.said("leaves while ZooKeeper is unreachable"), 1)
        self.assertEqual(len(self.group.owners("t")), 4)
        self.group.ensemble.end(a.store.session_id)
        self.group.settle(1)
        self.assertEqual(len(b.connector.owned), 4)
        a.store.resume()

    def test_expired_while_leaving(self) -> None:
        """A session that ends while a record is waited for takes everything with it: nothing is committed then."""
        self.put(b"1", b"2", b"3")
        a = self.group.reader("a", seconds=0.5, auto_commit_interval=60.0, finish_timeout=10.0).read({"t": 1})
        self.group.settle(0.7)
        self.assertEqual(a.values, [b"1"])
        done = a.connector.shutdown()
        a.store.expire()
        self.group.settle(1)
        self.successResultOf(done)
        self.assertIsNone(self.group.committed("t", 0))
        self.assertEqual((self.group.names("/consumers/g/ids"), self.group.names("/consumers/g/owners/t")), ([], []))

    def test_leaving_while_the_session_survives(self) -> None:
        """If the session goes on, the member's nodes are removed as soon as it is connected again."""
        a = self.group.reader("a").read({"t": 1})
        b = self.group.reader("b").read({"t": 1})
        self.group.settle(1)
        a.store.suspend()
        self.group.now(a.connector.shutdown())
        self.assertEqual(self.group.names("/consumers/g/ids"), ["g_a", "g_b"])
        a.store.resume()
        self.group.settle(1)
        self.assertEqual(self.group.names("/consumers/g/ids"), ["g_b"])
        self.assertEqual(len(b.connector.owned), 4)

    def test_joining_while_disconnected(self) -> None:
        """A member that starts while ZooKeeper is unreachable joins when it is back."""
        a = self.group.reader("a")
        a.store.suspend()
        a.read({"t": 1})
        self.group.settle(1)
        a.store.resume()
        self.group.settle(1)
        self.group.check_balanced("t")

    def test_closed(self) -> None:
        """A store that is closed is no store."""
        a = self.group.reader("a")
        self.group.now(a.store.close())
        a.read({"t": 1})
        self.assertEqual(len(a.errors), 1)
