"""
Restarts the brokers of a cluster one after the other, by a command of the operator's.

The next one is told to stop when the last one has been away and all partitions have been in sync for a while, so that
``acks=all`` is refused nowhere. What does not come back ends it: no second broker is stopped then.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from logbus.cli.rebalance_plan import machines
from logbus.cli.rolling_restart_plan import Machine, Sight, refusing_without, restart_order, was_away
from logbus.cli.runner import CommandFailed
from logbus.client.admin.admin_client import AdminClient
from logbus.client.retry import Unreachable, is_retriable
from logbus.errors import ApiError, Disconnected

PAUSE_SECONDS = 0.5


@define(eq=False)
class RollingRestart:
    """
    A rolling restart of a cluster.

    :ivar restart: has a machine's brokers restarted; fires with the command's exit status, and can be cancelled.
    :ivar limit: seconds for a machine, until it is in sync again.
    :ivar settle: seconds for which all must have been in sync.
    :ivar forced: restart brokers even if partitions refuse ``acks=all`` meanwhile.
    :ivar say: called with a line for the user.
    """

    admin: AdminClient
    clock: IReactorTime
    restart: Callable[[Machine], Deferred[int]]
    limit: float
    settle: float
    forced: bool
    say: Callable[[str], object]

    async def plan(self, only: Sequence[int] = ()) -> list[Machine]:
        """
        What is to be restarted, in order.

        :param only: the brokers; none: all.
        :raise CommandFailed: a broker is not there, something is not in sync, or partitions would refuse writes.
        """
        found = await self.admin.describe_cluster()
        hosts = {node.node_id: node.host for node in found.nodes}
        missing = sorted(set(only) - hosts.keys())
        if missing:
            raise CommandFailed(f"broker {missing[0]} is not there; there are: {', '.join(map(str, sorted(hosts)))}")
        sight = await self._look()
        problems = sight.problems()
        if problems:
            raise CommandFailed(f"no broker was restarted: {'; '.join(problems)}")
        directories = {
            broker: (host, [each.path for each in await self.admin.describe_log_dirs(broker)])
            for broker, host in hosts.items()
        }
        wanted = [
            machine
            for machine in restart_order(hosts, machines(directories), found.controller_id)
            if not only or set(only).intersection(machine.brokers)
        ]
        if not self.forced:
            least = await self.admin.min_insync_replicas(topic.name for topic in sight.topics)
            for machine in wanted:
                refusing = refusing_without(machine, sight, least)
                if refusing:
                    raise CommandFailed(
                        f"no broker was restarted: {len(refusing)} partitions, such as {min(refusing)}, would refuse "
                        f"writes without {machine}; give them more replicas, or --force it"
                    )
        return wanted

    async def carry_out(self, only: Sequence[int] = ()) -> int:
        """
        Restart the brokers; returns how many.

        :raise CommandFailed: as :meth:`plan`; a command failed, or a broker did not come back in time.
        """
        wanted = await self.plan(only)
        for position, machine in enumerate(wanted):
            try:
                await self._one(machine)
            except CommandFailed as e:
                left = [str(broker) for each in wanted[position + 1 :] for broker in each.brokers]
                raise CommandFailed(f"{e}; not restarted: {', '.join(left) or 'none'}") from None
        return sum(len(machine.brokers) for machine in wanted)

    async def _one(self, machine: Machine) -> None:
        before = await self._look()
        self.say(f"{machine}: restarting")
        began = self.clock.seconds()
        statuses: list[int] = []
        running = self.restart(machine).addCallback(statuses.append)
        try:
            await self._until_back(machine, before, statuses, began)
        finally:
            running.addErrback(lambda failure: None)
            running.cancel()
        self.say(f"{machine}: in sync again after {self.clock.seconds() - began:.0f} s")

    async def _until_back(self, machine: Machine, before: Sight, statuses: Sequence[int], began: float) -> None:
        stopped = False
        well_since: float | None = None
        while True:
            if statuses and statuses[0] != 0:
                raise CommandFailed(f"{machine}: the command ended with status {statuses[0]}")
            now = await self._look_again()
            # Where all brokers are workers of one machine, nobody answers while they are away.
            stopped = stopped or now is None or was_away(machine, before, now)
            problems = ["no broker answers"] if now is None else now.problems()
            seconds = self.clock.seconds()
            if problems or not statuses or not stopped:
                well_since = None
            elif well_since is None:
                well_since = seconds
            if well_since is not None and seconds - well_since >= self.settle:
                return
            if seconds - began > self.limit:
                if not stopped:
                    raise CommandFailed(
                        f"{machine}: not seen to stop in {self.limit:g} s: does the command restart it?"
                    )
                if not statuses:
                    raise CommandFailed(f"{machine}: the command still ran after {self.limit:g} s")
                raise CommandFailed(
                    f"{machine}: after {self.limit:g} s {'; '.join(problems) or 'not in sync for long'}"
                )
            await deferLater(self.clock, PAUSE_SECONDS)

    async def _look(self) -> Sight:
        nodes = (await self.admin.describe_cluster()).nodes
        return Sight(frozenset(node.node_id for node in nodes), await self.admin.list_topics(internal=True))

    async def _look_again(self) -> Sight | None:
        """As :meth:`_look`; None if no broker answers now."""
        try:
            return await self._look()
        except (Disconnected, Unreachable):
            return None
        except ApiError as e:
            if not is_retriable(e):
                raise
            return None


def shell_command(template: str, machine: Machine) -> str:
    """The operator's command for a machine: ``{host}`` and ``{broker}`` are replaced, quoted for the shell."""
    return template.replace("{host}", shlex.quote(machine.host)).replace("{broker}", str(machine.brokers[0]))


def run_in_shell(reactor: Any, template: str, machine: Machine) -> Deferred[int]:
    """
    Run the operator's command for a machine, with our input and output.

    :returns: fires with its exit status, 128 and more for a signal, as shells say it; cancelled, it is terminated.
    """
    environment = {**os.environ, "LOGBUS_HOST": machine.host, "LOGBUS_BROKER": str(machine.brokers[0])}
    running = _Running()
    command = ["sh", "-c", shell_command(template, machine)]
    reactor.spawnProcess(running, "/bin/sh", command, env=environment, childFDs={0: 0, 1: 1, 2: 2})
    return running.status


class _Running(ProcessProtocol):
    """
    :ivar status: fires with the exit status.
    """

    def __init__(self) -> None:
        self.status: Deferred[int] = Deferred(lambda _: self._terminate())

    def processEnded(self, reason: Failure) -> None:
        if not self.status.called:
            value: Any = reason.value
            self.status.callback(128 + value.signal if value.signal is not None else value.exitCode or 0)

    def _terminate(self) -> None:
        assert self.transport is not None
        try:
            self.transport.signalProcess("TERM")
        except ProcessExitedAlready:
            pass
