"""
Runs a local cluster: broker processes and their ZooKeeper.

A broker that crashes or is killed is restarted after a while; a broker that is stopped in order stays down.  Without
ZooKeeper the cluster goes nowhere, so that is restarted whatever ended it.
"""

from __future__ import annotations

import fcntl
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from attrs import define, field

from logbus.cli.runner import CommandFailed
from logbus.testing.broker_process import BrokerProcess, local_listener
from logbus.testing.errors import BrokerFailed
from logbus.testing.zookeeper import ZooKeeper, ZooKeeperFailed

LOCK_FILE = ".cluster.lock"
CHROOT = "/logbus"
START_SECONDS = 60.0
STOP_SECONDS = 60.0
MOST_FAILURES = 3
"""Failed starts in a row after which a broker is not restarted."""
LONGEST_WAIT_SECONDS = 60.0
"""Most seconds between two attempts to restart ZooKeeper, if they fail."""


@define(eq=False)
class ManagedBroker:
    """
    A broker of the cluster.

    :ivar again_at: when to restart it, by the monotonic clock; None: it runs, or stays down.
    """

    number: int
    config: Mapping[str, str]
    data_dir: Path
    listeners: Sequence[str]
    log: Path
    process: BrokerProcess | None = None
    again_at: float | None = None
    failures: int = 0

    def launch(self, ended: Callable[[ManagedBroker, BrokerProcess], object]) -> None:
        """Start the process; ``ended`` is called, in a thread, when it has exited."""
        self.again_at = None
        self.process = process = BrokerProcess(self.config, self.data_dir, self.listeners, own_group=True, log=self.log)

        def watch() -> None:
            process.process.wait()
            ended(self, process)

        threading.Thread(target=watch, name=f"broker-{self.number}-watch", daemon=True).start()

    @property
    def runs(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.process.poll() is None


@define(eq=False)
class Supervisor:
    """
    Starts, restarts and stops the brokers.

    :ivar data_dir: the directory for all data, with one subdirectory per broker.
    :ivar zookeeper: ``zookeeper.connect``; None: start one, with its data beside the brokers'.
    :ivar config: settings of all brokers, by Kafka's names.
    :ivar port: Kafka port of the first broker, ``admin_port`` its HTTP port; the others use the next ones; 0: any.
    :ivar restart_after: seconds until a crashed broker is restarted; negative: never.
    :ivar say: called with a line for the user.
    """

    data_dir: Path
    brokers: int
    zookeeper: str | None
    config: Mapping[str, str]
    port: int
    admin_port: int
    restart_after: float
    say: Callable[[str], object]
    members: list[ManagedBroker] = field(factory=list, init=False)
    _own: ZooKeeper | None = field(default=None, init=False)
    _own_again_at: float | None = field(default=None, init=False)
    _own_wait: float | None = field(default=None, init=False)
    _events: queue.SimpleQueue[Callable[[], object] | None] = field(factory=queue.SimpleQueue, init=False)

    def run(self) -> None:
        """
        Run until SIGINT or SIGTERM.

        :raise CommandFailed: a broker could not be started, or none is left.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self._events.put(None))
        with ExitStack() as held:
            self._lock(held)
            if self.zookeeper is None:
                ZooKeeper.require()
                self._own = ZooKeeper(timeout=START_SECONDS, home=self.data_dir / "zookeeper")
                held.callback(self._own.close)
            held.callback(self._stop)
            self._start()
            self._supervise()
            self.say("stopping")
        self.say("stopped")

    def _lock(self, held: ExitStack) -> None:
        lock = held.enter_context((self.data_dir / LOCK_FILE).open("ab"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandFailed(f"a cluster runs in {self.data_dir} already; choose another --data-dir") from None

    def _start(self) -> None:
        connect = self._own.connect + CHROOT if self._own is not None else self.zookeeper or ""
        self.members = [self._member(number, connect) for number in range(self.brokers)]
        try:
            for member in self.members:
                # Brokers wait for ZooKeeper themselves.
                member.launch(self._ended)
            if self._own is not None:
                self._start_zookeeper(self._own)
            for member in self.members:
                self._wait_ready(member)
        except (BrokerFailed, ZooKeeperFailed) as e:
            raise CommandFailed(_last_line(str(e))) from None
        addresses = [member.process.addresses for member in self.members if member.process is not None]
        for member, at in zip(self.members, addresses, strict=True):
            self.say(f"broker {member.number}: {at['kafka']}, http://{at['admin']}, log in {member.log}")
        self.say(f"cluster ready: --bootstrap {','.join(at['kafka'] for at in addresses)}")

    def _member(self, number: int, connect: str) -> ManagedBroker:
        ports = {"kafka": self.port, "admin": self.admin_port}
        config = {"broker.id": str(number), "zookeeper.connect": connect, **self.config}
        listeners = [local_listener(name, port and port + number) for name, port in ports.items()]
        home = self.data_dir / f"broker-{number}"
        return ManagedBroker(number, config, home, listeners, self.data_dir / f"broker-{number}.log")

    def _wait_ready(self, member: ManagedBroker) -> None:
        assert member.process is not None
        member.process.wait_ready(START_SECONDS)

    def _ended(self, member: ManagedBroker, process: BrokerProcess) -> None:
        self._events.put(lambda: self._note_end(member, process))

    def _start_zookeeper(self, own: ZooKeeper) -> None:
        self._own_again_at = None
        own.start()

        def watch() -> None:
            own.wait_ended()
            self._events.put(self._note_zookeeper_end)

        threading.Thread(target=watch, name="zookeeper-watch", daemon=True).start()

    def _supervise(self) -> None:
        """Restart brokers and ZooKeeper until a signal arrives."""
        while True:
            again = [member.again_at for member in self.members if member.again_at is not None]
            if not again and not any(member.runs for member in self.members):
                raise CommandFailed("no broker is left")
            if self._own_again_at is not None:
                again.append(self._own_again_at)
            try:
                event = self._events.get(timeout=max(0.0, min(again) - time.monotonic()) if again else None)
            except queue.Empty:
                self._restart()
                continue
            if event is None:
                return
            event()

    def _note_end(self, member: ManagedBroker, process: BrokerProcess) -> None:
        status = process.process.returncode
        if process is not member.process:
            return
        if status in (0, -signal.SIGTERM):
            self.say(f"broker {member.number} was stopped; it stays down")
            return
        how = f"was killed ({signal.Signals(-status).name})" if status < 0 else f"failed: {_last_line(process.output)}"
        member.failures = 0 if process.is_ready else member.failures + 1
        if self.restart_after < 0 or member.failures == MOST_FAILURES:
            self.say(f"broker {member.number} {how}; it stays down")
            return
        self.say(f"broker {member.number} {how}; it is started again in {self.restart_after:g} s")
        member.again_at = time.monotonic() + self.restart_after

    def _note_zookeeper_end(self) -> None:
        if self.restart_after < 0:
            self.say("ZooKeeper has ended; it stays down, and without it brokers do nothing but serve what they lead")
            return
        self.say(f"ZooKeeper has ended; it is started again in {self.restart_after:g} s")
        self._own_again_at = time.monotonic() + self.restart_after

    def _restart(self) -> None:
        now = time.monotonic()
        if self._own is not None and self._own_again_at is not None and self._own_again_at <= now:
            self._restart_zookeeper(self._own)
        for member in self.members:
            if member.again_at is not None and member.again_at <= now:
                self.say(f"broker {member.number} is started again")
                member.launch(self._ended)

    def _restart_zookeeper(self, own: ZooKeeper) -> None:
        """Restart ZooKeeper; if that fails, try again later: the brokers serve what they lead meanwhile."""
        try:
            self._start_zookeeper(own)
        except (ZooKeeperFailed, OSError) as e:
            wait = self._own_wait = min(2 * (self._own_wait or max(self.restart_after, 1.0)), LONGEST_WAIT_SECONDS)
            self._own_again_at = time.monotonic() + wait
            self.say(f"ZooKeeper cannot be started, which is tried again in {wait:g} s: {_last_line(str(e))}")
            return
        self._own_wait = None
        self.say("ZooKeeper is started again")

    def _stop(self) -> None:
        """Stop all brokers at once, each in order."""
        running = [member for member in self.members if member.runs]
        threads = [threading.Thread(target=self._stop_one, args=(member,)) for member in running]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _stop_one(self, member: ManagedBroker) -> None:
        assert member.process is not None
        try:
            member.process.stop(STOP_SECONDS)
        except BrokerFailed as e:
            self.say(f"broker {member.number}: {_last_line(str(e))}")


def _last_line(output: str) -> str:
    """Return the last line of a broker's output, which has its error."""
    lines = [line for line in output.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("logbus: ")]
    return (said or lines or ["it said nothing"])[-1].removeprefix("logbus: ")
