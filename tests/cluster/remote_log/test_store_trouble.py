"""Whether the object store works, as the broker's conditions tell it."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.broker.condition_sources import RemoteStorageSource
from logbus.cluster.remote_log.store_trouble import StoreTrouble
from logbus.storage.remote.iremote_storage import RemoteStorageError


class StoreTroubleTests(SynchronousTestCase):
    """A store that fails, and works again."""

    def test_condition(self) -> None:
        """There is a finding with the last error from the first failure to the next success."""
        trouble = StoreTrouble("s3://bucket/logs")
        source = RemoteStorageSource(trouble)
        self.assertEqual(list(source.away()), [])
        for what in "no route", "access denied":
            trouble.note(RemoteStorageError(f"s3://bucket/logs/x cannot be read: {what}"))
        (found,) = source.away()
        assert found is not None
        self.assertEqual(found.subject, "s3://bucket/logs")
        self.assertIn("access denied", found.message)
        trouble.note(None)
        self.assertEqual(list(source.away()), [])

    def test_without_a_store(self) -> None:
        """A broker without remote storage has no such condition."""
        self.assertEqual(list(RemoteStorageSource(None).away()), [])
