"""The quarantine of a Delta Lake table: a table of its own, to which files are committed after the table's commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import define, field

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake import delta_writes
from logbus.pipeline.lake.delta_actions import NOWHERE, STATE_ID, AddedFile, Position, Quarantined
from logbus.pipeline.lake.store_patience import FailedAttempts, waiting

if TYPE_CHECKING:
    from deltalake import DeltaTable

_ATTEMPTS = 100
"""Of a commit, while other programs commit."""


@define(eq=False)
class DeltaQuarantine:
    """
    :param url: of its directory;  ``options``: see :func:`.storage_options`.
    :param clock: milliseconds since 1970.
    """

    url: str
    options: Mapping[str, str] = field(repr=False)
    _clock: Callable[[], int]
    _settled: Position = field(default=NOWHERE, init=False)

    def table(self) -> DeltaTable | None:
        """
        The table; None: there is none yet.

        :raise LakeError: its log cannot be read.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            with waiting(self.url, "to read its log"):
                return DeltaTable(self.url, storage_options=dict(self.options))
        except TableNotFoundError:
            return None
        except delta_writes.failures() as e:
            raise delta_writes.unreadable(self.url, e) from e

    def settle(self, odd: Quarantined, position: Position) -> None:
        """
        Commit the files of the table's commit at a position, unless it is done; it can be repeated, by any job.

        :raise LakeError: it cannot be done now.
        """
        if self._settled == position or not odd.files:
            self._settled = position
            return
        properties = delta_writes.properties_of("load", {STATE_ID: position.version})
        failed = FailedAttempts()
        for attempt in range(_ATTEMPTS):
            table = self.table()
            if not unsettled(table, odd, position):
                break
            try:
                if table is None:
                    delta_writes.create(
                        self.url, self.options, odd.schema, odd.directories, properties, odd.files, self._clock()
                    )
                else:
                    if delta_writes.widen(self.url, table, odd.schema, delta_writes.properties_of("schema", {})):
                        table.update_incremental()
                    delta_writes.append(table, odd.files, properties, self._clock())
            except delta_writes.failures() as e:
                if failed.is_last(-1 if table is None else table.version()) or attempt == _ATTEMPTS - 1:
                    raise LakeError(
                        f"{self.url}: a commit has failed: {delta_writes.failure_text(e)}; the records that could be "
                        "read are in the table, and the next run commits these"
                    ) from e
        self._settled = position


def unsettled(table: DeltaTable | None, odd: Quarantined, position: Position) -> Sequence[AddedFile]:
    """
    The files of the table's commit at a position that the quarantine does not have yet.

    :raise LakeError: the quarantine's log cannot be read.
    """
    done = None if table is None else delta_writes.transaction(table.table_uri, table, STATE_ID)
    return odd.files if done is None or done < position.version else ()
