"""
Changes users, quotas, ACLs and delegation tokens, for request handlers, if this broker is the controller.

All changes run on the controller's queue, one after the other, so an edit sees what those before it have written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from attrs import define
from twisted.internet.defer import TimeoutError
from twisted.internet.interfaces import IReactorTime

from logbus.cluster.controller.active_controller import ActiveController
from logbus.cluster.controller.broker_channels import PendingUpdates
from logbus.cluster.controller.controller import Controller
from logbus.cluster.controller.security_changes import write_nodes
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.security_znodes import security_root
from logbus.net.time_slices import SliceScheduler, TimeSlice

MAX_NODES = 50_000
"""Nodes in all: each broker has them in memory, and gets all of them when it registers."""

MAX_NODE_BYTES = 256 * 1024
"""Of one node; ZooKeeper takes 1 MB, and a transaction has several nodes."""

MAX_PATH = 4096
"""Of one path, whose names may be clients' own."""

MAX_BYTES = 16 * 1024 * 1024
"""Of all paths and contents."""

NODES_AT_ONCE = 200
"""Nodes that are written, and sent to the brokers, together: some milliseconds of work here and there."""

BYTES_AT_ONCE = 64 * 1024
"""Of their contents, if they are several."""

WAIT_SECONDS = 5.0
"""How long a change waits for brokers to apply it; they will later, if they live."""

NodeEdit = Callable[[bytes | None], bytes | None]
"""
Makes a node's new content of the present one, None for no node; raises ApiError to refuse. It may run again after it
was refused elsewhere, so it has no side effects.
"""


@define(eq=False)
class SecurityAdmin:
    """
    Edits security nodes (:mod:`logbus.metastore.security_znodes`).

    :ivar scheduler: gives time slices to edits of many nodes; None: all of it runs at once.
    """

    controller: Controller
    clock: IReactorTime
    scheduler: SliceScheduler | None = None

    @returns_deferred
    async def change(self, path: str, edit: NodeEdit) -> None:
        """
        Edit one node; fires when it is stored, and the brokers have it or :data:`WAIT_SECONDS` are over.

        :raise ApiError: that of the edit; POLICY_VIOLATION: too much would be stored; NOT_CONTROLLER.
        """
        error = (await self.change_all({path: edit}))[path]
        if error is not None:
            raise error

    @returns_deferred
    async def change_all(
        self, edits: Mapping[str, NodeEdit], *, validate_only: bool = False
    ) -> dict[str, ApiError | None]:
        """
        Edit several nodes, each with its own outcome.

        :return: by path: None, or the error.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(active: ActiveController) -> tuple[dict[str, ApiError | None], PendingUpdates | None]:
            outcomes: dict[str, ApiError | None] = {}
            wanted: dict[str, bytes | None] = {}
            room = _Room(active)
            time_slice = TimeSlice(self.scheduler)
            async for path, edit in time_slice.over(edits.items(), 4):
                try:
                    _check_path(path)
                    now = active.state.security_nodes.get(path)
                    data = edit(now) or None
                    room.take(path, now, data)
                except ApiError as error:
                    outcomes[path] = error.without_frames()
                    continue
                outcomes[path] = None
                if data != now:
                    wanted[path] = data
            if validate_only or not wanted:
                return outcomes, None
            delivery = None
            async for some in time_slice.over(_parts(wanted), NODES_AT_ONCE):
                delivery = await write_nodes(active, some)
            return outcomes, delivery  # Updates are applied in order: when the last one is, all are.

        outcomes, delivery = await self.controller.submit(run)
        if delivery is not None:
            try:
                await delivery.wait().addTimeout(WAIT_SECONDS, self.clock)
            except TimeoutError:
                pass  # It is stored; a broker that is slow or away hears of it later.
        return outcomes


def _check_path(path: str) -> None:
    try:
        security_root(path)
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _parts(nodes: Mapping[str, bytes | None]) -> Iterator[dict[str, bytes | None]]:
    """The nodes to write, in parts of :data:`NODES_AT_ONCE` and :data:`BYTES_AT_ONCE`."""
    part: dict[str, bytes | None] = {}
    size = 0
    for path, data in nodes.items():
        size += len(data or b"")
        if part and (len(part) == NODES_AT_ONCE or size > BYTES_AT_ONCE):
            yield part
            part, size = {}, len(data or b"")
        part[path] = data
    yield part


class _Room:
    """The room that is left in the store."""

    def __init__(self, active: ActiveController) -> None:
        table = active.state.security_nodes
        self._nodes, self._bytes = table.count, table.size

    def take(self, path: str, now: bytes | None, data: bytes | None) -> None:
        """
        :raise ApiError: POLICY_VIOLATION. What makes it less is never refused.
        """
        nodes = bool(data) - bool(now)
        more = len(data or b"") - len(now or b"") + nodes * len(path)
        if len(data or b"") > max(MAX_NODE_BYTES, len(now or b"")):
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"one node of the metadata store would have {len(data or b'')} bytes; {MAX_NODE_BYTES} are allowed",
            )
        if data and len(path) > MAX_PATH:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION, f"a name is too long: {path[:100]}…; {MAX_PATH} bytes are allowed"
            )
        if nodes > 0 and self._nodes + nodes > MAX_NODES:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"there are {self._nodes} users, entities with quotas, resources with ACLs and delegation tokens; "
                f"{MAX_NODES} are allowed: delete those that are not needed",
            )
        if more > 0 and self._bytes + more > MAX_BYTES:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"users, quotas, ACLs and delegation tokens take {self._bytes} bytes; {MAX_BYTES} are allowed: delete "
                "those that are not needed",
            )
        self._nodes += nodes
        self._bytes += more
