"""
Elects the controller: the broker that creates the ephemeral node ``/controller`` is it.

The winner raises ``/controller_epoch`` in the transaction that creates ``/controller``. The version of that node is the
token that all of its writes check: a controller that was replaced, and does not know it yet, can write nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from attrs import frozen
from twisted.logger import Logger

from logbus.metastore.cluster_znodes import ControllerEpochZnode, ControllerNode, ControllerZnode
from logbus.metastore.imetastore import IMetadataStore
from logbus.metastore.operations import Create, MultiFailed, NodeExists, NoNode, Set, Watcher
from logbus.metastore.znodes import CONTROLLER, CONTROLLER_EPOCH


@frozen
class ControllerEpochAndToken:
    """We are the controller: in this epoch, with this token for our writes."""

    epoch: int
    token: int


@frozen
class ControllerElection:
    """
    A broker that stands for controller.

    :ivar incarnation: of this life of the broker; tells our own node from one of a former life.
    """

    store: IMetadataStore
    broker_id: int
    incarnation: UUID
    wall_clock: Callable[[], float]
    _log = Logger()

    async def contend(self, watch: Watcher) -> ControllerEpochAndToken | ControllerNode:
        """
        Become the controller if there is none.

        :param watch: hears when the controller that was found, or made, is no more.
        :return: our own election, or who the controller is.
        """
        while True:
            try:
                data, stat = await self.store.get(CONTROLLER, watch)
            except NoNode:
                await self._claim()
                continue
            node = ControllerZnode.decode(data)
            if stat.ephemeral_owner != self.store.session_id or node.incarnation != self.incarnation:
                return node
            epoch, token = await self._epoch()
            if epoch == node.epoch:
                return ControllerEpochAndToken(epoch, token)
            # Our node is still there, but somebody else has been elected since: it cannot last.
            return node

    async def _claim(self) -> None:
        """Try to create the node; reading it afterwards shows the winner, even if our answer was lost."""
        epoch, version = await self._epoch()
        node = ControllerNode(self.broker_id, self.incarnation, epoch + 1, int(self.wall_clock() * 1000))
        try:
            await self.store.multi(
                [
                    Create(CONTROLLER, ControllerZnode.encode(node), ephemeral=True),
                    Set(CONTROLLER_EPOCH, ControllerEpochZnode.encode(epoch + 1), version),
                ]
            )
        except MultiFailed:
            return  # Somebody else was faster.
        self._log.info("broker {broker} is the controller, epoch {epoch}", broker=self.broker_id, epoch=epoch + 1)

    async def _epoch(self) -> tuple[int, int]:
        while True:
            try:
                data, stat = await self.store.get(CONTROLLER_EPOCH)
                return ControllerEpochZnode.decode(data), stat.version
            except NoNode:
                try:
                    await self.store.create(CONTROLLER_EPOCH, ControllerEpochZnode.encode(0))
                except NodeExists:
                    pass
