"""Rolling restarts, of a cluster that a test plays."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.rolling_restart import PAUSE_SECONDS, RollingRestart, shell_command
from logbus.cli.rolling_restart_plan import Machine
from logbus.cli.runner import CommandFailed
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.log_dir_admin import LogDir
from logbus.client.cluster.cluster import PartitionMetadata, TopicMetadata
from logbus.errors import Disconnected

LIMIT, SETTLE = 60.0, 5.0


@define
class PlayedCluster:
    """
    Three brokers, the second of which is the controller, and what an admin client asks them.

    :ivar alive: brokers that are there.
    :ivar isr: of the one partition.
    :ivar least: its ``min.insync.replicas``.
    :ivar is_dumb: no broker answers.
    """

    alive: list[int] = field(factory=lambda: [0, 1, 2])
    isr: tuple[int, ...] = (0, 1, 2)
    least: int = 2
    is_dumb: bool = False

    def _answer(self, value: Any) -> Deferred[Any]:
        return fail(Disconnected("it is away")) if self.is_dumb else succeed(value)

    def describe_cluster(self) -> Deferred[Any]:
        nodes = [SimpleNamespace(node_id=broker, host=f"host-{broker}") for broker in self.alive]
        return self._answer(SimpleNamespace(nodes=nodes, controller_id=1))

    def list_topics(self, internal: bool) -> Deferred[Any]:
        partition = PartitionMetadata(0, self.isr[0], 1, (0, 1, 2), self.isr)
        return self._answer([TopicMetadata("orders", uuid.UUID(int=1), False, {0: partition})])

    def describe_log_dirs(self, broker_id: int) -> Deferred[list[LogDir]]:
        return self._answer([LogDir(f"/d/{broker_id}", replicas={})])

    def min_insync_replicas(self, topics: Iterable[str]) -> Deferred[Any]:
        return self._answer(dict.fromkeys(topics, self.least))


class RollingRestartTests(SynchronousTestCase):
    """Who is restarted when."""

    def setUp(self) -> None:
        self.cluster = PlayedCluster()
        self.clock = Clock()
        self.told: list[Machine] = []
        self.commands: list[Deferred[int]] = []
        self.cancelled: list[Deferred[int]] = []
        self.said: list[str] = []

    def begin(self, *only: int, forced: bool = False) -> Deferred[int]:
        """Begin a rolling restart."""
        admin = cast(AdminClient, self.cluster)
        one = RollingRestart(admin, self.clock, self.restart, LIMIT, SETTLE, forced, self.said.append)
        return Deferred.fromCoroutine(one.carry_out(only))

    def restart(self, machine: Machine) -> Deferred[int]:
        """The operator's command."""
        self.told.append(machine)
        self.commands.append(Deferred(self.cancelled.append))
        return self.commands[-1]

    def bounce(self) -> None:
        """The broker that was told last stops, is seen to, and comes back."""
        (broker,) = self.told[-1].brokers
        self.cluster.alive.remove(broker)
        self.wait(PAUSE_SECONDS)
        self.cluster.alive.append(broker)
        self.commands[-1].callback(0)

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.clock.pump([PAUSE_SECONDS] * round(seconds / PAUSE_SECONDS))

    def told_brokers(self) -> list[int]:
        return [broker for machine in self.told for broker in machine.brokers]

    def refusal(self, running: Deferred[int]) -> str:
        return str(self.failureResultOf(running, CommandFailed).value)

    def test_one_after_the_other(self) -> None:
        """The controller is the last."""
        running = self.begin()
        for _ in range(3):
            self.bounce()
            self.wait(SETTLE + 2 * PAUSE_SECONDS)
        self.assertEqual(self.told_brokers(), [0, 2, 1])
        self.assertEqual(self.successResultOf(running), 3)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.said[0], "broker 0 (host-0): restarting")
        self.assertRegex(self.said[1], r"^broker 0 \(host-0\): in sync again after \d+ s$")

    def test_only_some(self) -> None:
        """Brokers can be named."""
        running = self.begin(2)
        self.bounce()
        self.wait(SETTLE + 2 * PAUSE_SECONDS)
        self.assertEqual((self.successResultOf(running), self.told_brokers()), (1, [2]))
        self.assertEqual(self.refusal(self.begin(9)), "broker 9 is not there; there are: 0, 1, 2")

    def test_the_next_one_waits_for_all_replicas(self) -> None:
        """While a partition is under-replicated nobody else is stopped, and then it must last."""
        self.begin()
        self.cluster.isr = (1, 2)
        self.bounce()
        self.wait(LIMIT / 2)
        self.assertEqual(self.told_brokers(), [0])
        self.cluster.isr = (0, 1, 2)
        self.wait(SETTLE - 1)
        self.cluster.isr = (1, 2)
        self.wait(1)
        self.cluster.isr = (0, 1, 2)
        self.wait(SETTLE - 1)
        self.assertEqual(self.told_brokers(), [0])
        self.wait(2)
        self.assertEqual(self.told_brokers(), [0, 2])

    def test_a_command_that_returns_early(self) -> None:
        """That all is in sync before the broker stops is not taken for its return."""
        self.begin()
        self.commands[0].callback(0)
        self.wait(LIMIT / 2)
        self.assertEqual(self.told_brokers(), [0])
        self.cluster.alive.remove(0)
        self.wait(1)
        self.cluster.alive.append(0)
        self.wait(SETTLE + 2 * PAUSE_SECONDS)
        self.assertEqual(self.told_brokers(), [0, 2])

    def test_brokers_that_do_not_answer_for_a_while(self) -> None:
        """As where the only machine is restarted."""
        self.begin()
        self.cluster.is_dumb = True
        self.commands[0].callback(0)
        self.wait(LIMIT / 2)
        self.cluster.is_dumb = False
        self.wait(SETTLE + 2 * PAUSE_SECONDS)
        self.assertEqual(self.told_brokers(), [0, 2])

    def test_a_command_that_fails(self) -> None:
        """It ends there, at once."""
        running = self.begin()
        self.commands[0].callback(3)
        self.wait(PAUSE_SECONDS)
        self.assertEqual(
            self.refusal(running), "broker 0 (host-0): the command ended with status 3; not restarted: 2, 1"
        )

    def test_what_takes_too_long(self) -> None:
        """A command that does nothing, one that hangs, and a broker that stays behind."""
        running = self.begin()
        self.commands[0].callback(0)
        self.wait(LIMIT + 1)
        self.assertIn(
            "not seen to stop in 60 s: does the command restart it?; not restarted: 2, 1", self.refusal(running)
        )

        running = self.begin()
        self.cluster.alive.remove(0)
        self.wait(LIMIT + 1)
        self.assertIn("the command still ran after 60 s", self.refusal(running))
        self.assertEqual(self.cancelled, [self.commands[1]])

        self.cluster.alive.append(0)
        running = self.begin()
        self.cluster.isr = (1, 2)
        self.commands[2].callback(0)
        self.wait(LIMIT + 1)
        self.assertIn("after 60 s 1 partitions are under-replicated, such as orders-0", self.refusal(running))

    def test_not_begun(self) -> None:
        """Nothing is restarted while something is wrong, or if writes would be refused; that may be forced."""
        self.cluster.isr = (0, 1)
        self.assertIn("no broker was restarted: 1 partitions are under-replicated", self.refusal(self.begin()))
        self.assertIn("no broker was restarted", self.refusal(self.begin(forced=True)))
        self.cluster.isr, self.cluster.least = (0, 1, 2), 3
        self.assertIn(
            "1 partitions, such as orders-0, would refuse writes without broker 0 (host-0)", self.refusal(self.begin())
        )
        self.assertEqual(self.told, [])
        self.begin(forced=True)
        self.assertEqual(self.told_brokers(), [0])

    def test_names_of_hosts_are_not_obeyed(self) -> None:
        """A host is what a broker says: the shell takes it for a word."""
        machine = Machine("x; rm -r /", (4, 5))
        self.assertEqual(shell_command("ssh {host} logbus-{broker} ${X}", machine), "ssh 'x; rm -r /' logbus-4 ${X}")
