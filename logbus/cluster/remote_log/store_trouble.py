"""Reports once that the remote store is away, and once that it is back."""

from __future__ import annotations

from attrs import define, field
from twisted.logger import Logger

from logbus.storage.remote.iremote_storage import RemoteStorageError


@define(eq=False)
class StoreTrouble:
    """
    Whether the store works.

    :ivar failures: in a row; ``error``: the last one's.
    """

    where: str
    failures: int = field(default=0, init=False)
    error: str = field(default="", init=False)
    _log = Logger()

    def note(self, error: RemoteStorageError | None) -> None:
        """Note that something failed, or (None) worked."""
        if error is not None:
            if not self.failures:
                self._log.warn(
                    "remote storage is away, and what is in it cannot be read; segments stay on disk until it is back: "
                    "{error}",
                    error=error,
                )
            self.failures += 1
            self.error = str(error)
        elif self.failures:
            self._log.info("remote storage at {where} works again", where=self.where)
            self.failures = 0
