"""An object store in memory, which brokers use from their simulated threads: it is slow, fails, and is cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random

from attrs import define, field

from logbus.storage.remote.iremote_storage import ObjectMissing, RemoteStorage, RemoteStorageError
from logbus.testing.simulation.environment.simulated_threads import ProcessEnded, SimulatedThreads
from logbus.testing.simulation.environment.virtual_clock import VirtualClock

REMOTE_SECONDS = 0.02
LANDING_SECONDS = 1.0
"""For so long at most a write may still be under way after its sender has died."""


@define(eq=False)
class RemoteObjects:
    """
    The store.

    :ivar objects: the contents by name.
    :ivar seconds: the average time of an operation.
    :ivar failing: the share of operations that fail, some of them after they had their effect, or a part of it;
        ``refused``: the operations that all fail.
    :ivar failed: how many have.
    :ivar on_write: called with the sender's id before each part of a write.
    """

    clock: VirtualClock
    random: Random
    objects: dict[str, bytes] = field(factory=dict, init=False)
    seconds: float = field(default=REMOTE_SECONDS, init=False)
    failing: float = field(default=0.0, init=False)
    refused: frozenset[str] = field(default=frozenset(), init=False)
    failed: int = field(default=0, init=False)
    on_write: Callable[[int], object] = field(default=lambda broker_id: None, init=False)

    def client(self, broker_id: int, threads: SimulatedThreads) -> RemoteClient:
        """The store as the process of a broker uses it."""
        return RemoteClient(self, broker_id, threads)

    def land(self, name: str, data: bytes) -> None:
        """A write whose sender died before it ended: nothing of it comes, a part, or all, now or later."""
        if self.random.random() < 0.5:
            part = data if self.random.random() < 0.7 else data[: int(len(data) * self.random.random())]
            at = self.clock.now + self.random.uniform(0, LANDING_SECONDS)
            self.clock.at(at, None, self.objects.__setitem__, name, part)


@define(eq=False)
class RemoteClient(RemoteStorage):
    """The client of one process; its threads block for virtual time."""

    store: RemoteObjects
    broker_id: int
    threads: SimulatedThreads
    where: str = "memory"

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        """Write an object."""
        store, data = self.store, b""
        for part in parts:
            data += part
            store.on_write(self.broker_id)
            try:
                self._pass()
            except ProcessEnded:
                store.land(name, data)
                raise
        if self._fails("write"):
            how = store.random.random()
            if how < 0.6:
                store.objects[name] = data if how < 0.3 else data[: int(len(data) * store.random.random())]
            self._fail("write", name)
        store.objects[name] = data
        self._pass(0.5)

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """Read an object, or a part."""
        self._pass()
        if self._fails("read"):
            self._fail("read", name)
        data = self.store.objects.get(name)
        if data is None:
            raise ObjectMissing(f"there is no {name}")
        return data[start:end]

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects."""
        for name in names:
            self._pass()
            if self._fails("delete"):
                if self.store.random.random() < 0.5:
                    self.store.objects.pop(name, None)
                self._fail("delete", name)
            self.store.objects.pop(name, None)

    def names(self, directory: str) -> Iterator[str]:
        """The names of a directory's objects."""
        self._pass()
        if self._fails("list"):
            self._fail("list", directory)
        prefix = f"{directory}/"
        return iter([name[len(prefix) :] for name in sorted(self.store.objects) if name.startswith(prefix)])

    def _pass(self, share: float = 1.0) -> None:
        """Let the time of an operation pass."""
        self.threads.sleep(self.store.random.uniform(0.5, 1.5) * self.store.seconds * share)

    def _fails(self, op: str) -> bool:
        store = self.store
        return op in store.refused or store.random.random() < store.failing

    def _fail(self, op: str, name: str) -> None:
        self.store.failed += 1
        raise RemoteStorageError(f"{op} {name}: the store was told to fail")
