"""Injects faults, checks that they have an effect, and ends all of them at the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from logbus.testing.simulation.bitflips import BitFlips
from logbus.testing.simulation.checks.durability_oracle import DurabilityOracle
from logbus.testing.simulation.environment.broker_node import BrokerNode, World, host_of
from logbus.testing.simulation.environment.memory_disk import broken, no_space
from logbus.testing.simulation.environment.timed_disk import SYNC_SECONDS
from logbus.testing.simulation.schedule import Fault
from logbus.testing.simulation.workloads.cluster_operator import ClusterOperator


@define(eq=False)
class Nemesis:
    """
    :ivar clients: the addresses of clients; ``operator``: the client that sends administrative requests.
    :ivar losses: the records that may be lost, by topic.
    :ivar effects: faults with an observed effect, by kind.
    :ivar moot: faults without one, since the broker was down already, or nothing noticed them.
    :ivar told: every fault and recovery, as lines.
    """

    world: World
    nodes: Mapping[int, BrokerNode]
    clients: Sequence[str]
    trace: Callable[[str], None]
    operator: ClusterOperator
    losses: Sequence[DurabilityOracle] = ()
    flips: BitFlips = field(init=False)
    effects: Counter[str] = field(factory=Counter, init=False)
    moot: Counter[str] = field(factory=Counter, init=False)
    told: list[str] = field(factory=list, init=False)
    _mends: dict[int, Callable[[], None]] = field(factory=dict, init=False)
    _number: int = field(default=0, init=False)
    _mended: bool = field(default=False, init=False)

    @flips.default
    def _no_flips(self) -> BitFlips:
        return BitFlips(self.losses)

    def do(self, fault: Fault) -> None:
        """Inject a fault now."""
        self._tell(f"{fault.kind} {fault.args}")
        act: Callable[..., bool | None] = getattr(self, "_" + fault.kind.replace("-", "_"))
        arguments = {("source" if name == "from" else name): value for name, value in fault.args.items()}
        effect = act(**arguments)
        if effect is not None:
            self._count(fault.kind, effect)

    def mend_all(self) -> None:
        """End all faults, and start all brokers that are down."""
        self._tell("mend")
        self._mended = True
        for mend in list(self._mends.values()):
            mend()
        self._mends.clear()
        for node in self.nodes.values():
            node.clock_offset = 0.0
            if node.up and not node.disk.crashed:
                node.disk.crash_at = None
            node.thaw()
            if node.up and node.disk.failure is not None:
                node.kill()
            node.start_again()

    def _tell(self, what: str) -> None:
        line = f"{self.world.clock.now:.3f} {what}"
        self.told.append(line)
        self.trace(line)

    def _count(self, kind: str, effect: bool) -> None:
        (self.effects if effect else self.moot)[kind] += 1

    def _for(self, seconds: float, mend: Callable[[], None], what: str) -> None:
        """Undo a fault after a while, or when all faults end."""
        self._number += 1
        number = self._number
        self._mends[number] = mend

        def over() -> None:
            if self._mends.pop(number, None) is not None:
                self._tell(f"end of {what}")
                mend()

        self.world.clock.at(self.world.clock.now + seconds, None, over)

    # Processes and machines.

    def _again(self, node: BrokerNode, down: float) -> None:
        life = node.lives

        def start() -> None:
            if node.lives == life:
                node.start_again()

        self._for(down, start, f"broker {node.broker_id} being down")

    def _kill(self, broker: int, down: float) -> bool:
        node = self.nodes[broker]
        if not node.up:
            return False
        node.kill()
        self._again(node, down)
        return node.reactor.dead

    def _power_cut(self, broker: int, down: float, mode: str) -> bool:
        node = self.nodes[broker]
        if not node.up:
            return False
        node.cut_power(mode)
        self._again(node, down)
        return node.reactor.dead

    def _lying_disk(self, broker: int, down: float, share: float) -> bool:
        """Kill a broker and lose a part of its synced data; another member has it."""
        node = self.nodes[broker]
        if not node.up or not all(each.all_but(broker) for each in self.losses):
            return False
        lost = node.lose_synced([each.topic for each in self.losses], share)
        for each in self.losses:
            each.synced_data_lost(broker)
        self._again(node, down)
        return lost > 0

    def _bit_flip(self, broker: int, at: float, bit: int) -> bool:
        """Damage data on one broker's disk; another in-sync replica is intact."""
        node = self.nodes[broker]
        flip = self.flips.flip(node, at, bit) if node.ready else None
        if flip is not None:
            self._tell(f"offset {flip.offset} of {flip.partition}: byte {flip.position} of {flip.path}")
        return flip is not None

    def _at_step(self, kind: str, broker: int, steps: int, die: Callable[[], object]) -> bool | None:
        node = self.nodes[broker]
        if not node.up or node.disk.crash_at is not None:
            return False

        def now() -> None:
            self._tell(f"broker {broker} stops at a step of its disk")
            die()
            self._count(kind, node.reactor.dead)

        node.die_at_step(steps, now)
        return None

    def _kill_at_step(self, broker: int, down: float, steps: int) -> bool | None:
        return self._at_step("kill-at-step", broker, steps, lambda: self._kill(broker, down))

    def _power_cut_at_step(self, broker: int, down: float, steps: int, mode: str) -> bool | None:
        return self._at_step("power-cut-at-step", broker, steps, lambda: self._power_cut(broker, down, mode))

    def _kill_all(self, down: Sequence[tuple[int, float]]) -> bool:
        # A list, so that all of them run.
        done = [self._kill(broker, seconds) for broker, seconds in down]
        return any(done)

    def _blackout(self, down: Sequence[tuple[int, float]], mode: str) -> bool:
        done = [self._power_cut(broker, seconds, mode) for broker, seconds in down]
        return any(done)

    def _restart(self, broker: int) -> bool:
        node = self.nodes[broker]
        if not node.ready or node.reactor.frozen:
            return False

        def again(_: object) -> None:
            self._tell(f"broker {broker} has stopped")
            node.start_again()

        stopped: Deferred[None] = node.stop()
        # In a turn of its own: code of the process that has just ended must not run within the new one.
        stopped.addCallback(lambda _: self.world.clock.at(self.world.clock.now + 0.05, None, again, None))
        return True

    def _freeze(self, broker: int, seconds: float) -> bool | None:
        node = self.nodes[broker]
        if not node.up or node.reactor.frozen:
            return False
        node.freeze()
        reactor = node.reactor

        def thaw() -> None:
            self._count("freeze", bool(reactor.missed))
            if reactor is node.reactor:
                node.thaw()

        self._for(seconds, thaw, f"broker {broker} being frozen")
        return None

    def _flap(self, times: int, seconds: float, how: str) -> bool | None:
        """Strike the current leader, again and again."""
        leaders = [node for node in self.nodes.values() if node.ready and not node.reactor.frozen and node.leads]
        struck = False
        if leaders:
            broker = leaders[0].broker_id
            self._tell(f"broker {broker} leads: {how}")
            if how == "expire":
                struck = self._expire(broker)
            elif how == "kill":
                struck = self._kill(broker, seconds / 2)
            elif how == "power-cut":
                struck = self._power_cut(broker, seconds / 2, "lose")
            else:
                self._isolate(broker, seconds)
                struck = True
        if times > 1:
            self.world.clock.at(self.world.clock.now + seconds, None, self._strike_again, times - 1, seconds, how)
        return struck

    def _islands(self, seconds: float, times: int, how: str) -> None:
        """Cut all links between brokers, and strike leaders; the metadata store and clients still reach all."""
        hosts = [host_of(each) for each in self.nodes]
        self._cut_links("islands", [(one, other) for one in hosts for other in hosts if one != other], seconds)
        gap = seconds / (times + 1)
        self.world.clock.at(self.world.clock.now + gap, None, self._strike_again, times, gap, how)

    def _strike_again(self, times: int, seconds: float, how: str) -> None:
        if not self._mended:
            self._flap(times, seconds, how)

    # Operators.

    def _asked(self, kind: str, work: Coroutine[Any, Any, bool]) -> None:
        Deferred.fromCoroutine(work).addCallback(lambda effect: self._count(kind, effect))

    def _elect(self) -> None:
        self._asked("elect", self.operator.elect())

    def _reassign(self, order: Sequence[int]) -> None:
        self._asked("reassign", self.operator.reassign(order))

    def _configure(self, name: str, value: str) -> None:
        self._asked("configure", self.operator.configure(name, value))

    def _topic(self, name: str, seconds: float) -> None:
        self._asked("topic", self.operator.come_and_go(name, seconds))

    # The network.

    def _cut_links(self, kind: str, links: Sequence[tuple[str, str]], seconds: float) -> None:
        network = self.world.network
        before = sum(network.links.between(*link).stopped for link in links)
        for link in links:
            network.cut(*link)

        def mend() -> None:
            self._count(kind, sum(network.links.between(*link).stopped for link in links) > before)
            for link in links:
                network.mend(*link)

        self._for(seconds, mend, f"{kind} of {len(links)} links")

    def _cut(self, source: int, to: int, seconds: float) -> None:
        one, other = host_of(source), host_of(to)
        self._cut_links("cut", [(one, other), (other, one)], seconds)

    def _one_way_cut(self, source: int, to: int, seconds: float) -> None:
        self._cut_links("one-way-cut", [(host_of(source), host_of(to))], seconds)

    def _isolate(self, broker: int, seconds: float) -> None:
        """Cut a broker off from the other brokers; clients still reach it."""
        me = host_of(broker)
        others = [host_of(each) for each in self.nodes if each != broker]
        self._cut_links("isolate", [link for each in others for link in ((me, each), (each, me))], seconds)

    def _cut_off(self, broker: int, seconds: float) -> None:
        """Cut a broker off from clients; brokers still reach it."""
        me = host_of(broker)
        self._cut_links("cut-off", [link for each in self.clients for link in ((me, each), (each, me))], seconds)

    def _slow_link(self, source: int, to: int, seconds: float, latency: float) -> bool:
        link = self.world.network.links.between(host_of(source), host_of(to))
        before = (link.latency, link.jitter)
        if link.latency > self.world.network.links.latency:
            return False
        link.latency, link.jitter = latency, latency / 2

        def mend() -> None:
            link.latency, link.jitter = before

        self._for(seconds, mend, f"slow link {source} to {to}")
        return True

    def _reset(self, broker: int) -> bool:
        others = [*self.clients, *(host_of(each) for each in self.nodes if each != broker)]
        return sum(self.world.network.reset(host_of(broker), each) for each in others) > 0

    # Disks.

    def _slow_sync(self, broker: int, seconds: float, latency: float) -> bool:
        node = self.nodes[broker]
        if not node.up:
            return False
        disk = node.disk
        disk.sync_seconds = latency

        def mend() -> None:
            disk.sync_seconds = SYNC_SECONDS

        self._for(seconds, mend, f"slow syncs on broker {broker}")
        return True

    def _disk_error(self, broker: int, op: str, down: float) -> bool | None:
        node = self.nodes[broker]
        if not node.up:
            return False
        disk = node.disk
        life = node.lives

        def fault(done: str, path: str) -> Any:
            if done != op or disk.failure is not None:
                return None
            self._count("disk-error", True)
            return broken()

        disk.faults = fault

        def replace() -> None:
            # An operator replaces the broken part, and starts the broker again.
            disk.faults = lambda op, path: None
            if node.lives == life and disk.failure is not None:
                node.kill()
                node.start_again()

        self._for(down, replace, f"disk errors on broker {broker}")
        return None

    def _no_space(self, broker: int, seconds: float) -> bool | None:
        node = self.nodes[broker]
        if not node.up:
            return False
        disk = node.disk
        refused = []

        def fault(op: str, path: str) -> Any:
            if op not in ("write", "create", "replace"):
                return None
            refused.append(op)
            return no_space()

        disk.faults = fault

        def mend() -> None:
            self._count("no-space", bool(refused))
            disk.faults = lambda op, path: None

        self._for(seconds, mend, f"no space on broker {broker}")
        return None

    # The metadata store, and time.

    def _store_cut(self, broker: int, seconds: float, noticed: bool) -> bool:
        node = self.nodes[broker]
        store = node.store
        if not node.up or not store.reachable:
            return False
        store.cut(noticed=noticed)
        self._for(seconds, store.mend, f"broker {broker} being cut off the store")
        return True

    def _store_outage(self, seconds: float) -> bool:
        ensemble = self.world.ensemble
        if not ensemble.available:
            return False
        ensemble.available = False
        cut = []
        for node in self.nodes.values():
            if node.up and node.store.reachable:
                node.store.cut(noticed=ensemble.random.random() < 0.5, expires=False)
                cut.append(node.store)

        def mend() -> None:
            ensemble.available = True
            for node in self.nodes.values():
                # Also sessions that began meanwhile.
                if node.up and node.store not in cut and node.store.reachable:
                    node.store.cut(noticed=True)
                    cut.append(node.store)
            for store in cut:
                store.mend()

        self._for(seconds, mend, "the store's outage")
        return True

    def _slow_store(self, seconds: float, latency: float) -> bool:
        ensemble = self.world.ensemble
        before = ensemble.seconds
        if before > 0.005:
            return False
        ensemble.seconds = latency

        def mend() -> None:
            ensemble.seconds = before

        self._for(seconds, mend, "the store being slow")
        return True

    def _expire(self, broker: int) -> bool:
        node = self.nodes[broker]
        if not node.up or not self.world.ensemble.alive(node.store.session_id):
            return False
        before = self.world.ensemble.expired
        node.store.expire()
        return self.world.ensemble.expired > before

    def _clock_jump(self, broker: int | None, by: float) -> bool:
        for node in self.nodes.values():
            if broker is None or node.broker_id == broker:
                node.clock_offset += by
        return bool(by)
