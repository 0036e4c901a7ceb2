"""Tiered storage in simulated clusters: what must have an effect, and mistakes that must be found."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.remote_log import remote_log_task
from logbus.cluster.remote_log.remote_log_task import RemoteLogTask
from logbus.storage.remote import remote_lookup, segment_upload
from logbus.storage.remote.iremote_storage import RemoteStorageError
from logbus.storage.remote.remote_log_plan import RemoteRetention
from logbus.testing.simulation.run import Outcome, Run
from logbus.testing.simulation.schedule import REMOTE_KINDS, Fault
from logbus.testing.simulation.settings import TIERED, Settings
from logbus.testing.simulation.workloads import tiered_workload

THREE = Settings(workloads=(TIERED,), seconds=12, rate=20)
ALONE = evolve(THREE, brokers=1, replication=1, min_insync=1)
ERRORS = Fault(1.0, "remote-errors", {"seconds": 11.0, "share": 0.3})


class TieredRunTests(SynchronousTestCase):
    """Seeds with given faults."""

    def setUp(self) -> None:
        # Nothing more comes of the mistakes.
        self.patch(tiered_workload, "CLEAN_SECONDS", 20.0)

    def run_one(self, settings: Settings, faults: list[Fault], seed: int = 1) -> Outcome:
        outcome = Run(settings, seed, faults).run()
        self.flushLoggedErrors()
        return outcome

    def assertFound(self, kind: str, outcome: Outcome) -> None:
        self.assertIn(kind, {each.kind for each in outcome.anomalies})

    def test_each_fault(self) -> None:
        """Has an effect, and nothing is lost or forgotten."""
        faults = [
            Fault(float(at), kind, arguments)
            for at, kind, arguments in (
                (2, "passing-archive", {"name": "passing", "seconds": 6.0}),
                (4, "kill-copier", {"down": 2.0, "steps": 3, "how": "kill"}),
                (12, "remote-outage", {"seconds": 3.0, "op": "all"}),
                (16, "slow-remote", {"seconds": 3.0, "latency": 1.0}),
                (20, "remote-errors", {"seconds": 5.0, "share": 0.5}),
                (26, "kill-copier", {"down": 10.0, "steps": 4, "how": "freeze"}),
                (40, "kill-copier", {"down": 1.0, "steps": 0, "how": "power-cut"}),
            )
        ]
        # Topics that are gone are known to be after a minute.
        self.patch(tiered_workload, "CLEAN_SECONDS", 200.0)
        outcome = self.run_one(evolve(THREE, seconds=45), faults)
        self.assertEqual(list(map(str, outcome.anomalies)), [])
        self.assertEqual(REMOTE_KINDS.keys() - outcome.effects.keys(), set(), "these had no effect")

    def test_copies_that_are_not_there_are_found(self) -> None:
        """A copy is said to be complete, though the store refused a part of it."""
        upload = segment_upload.upload

        def careless(*args: Any) -> int:
            try:
                return upload(*args)
            except RemoteStorageError:
                return 0

        self.patch(segment_upload, "upload", careless)
        self.assertFound("remote-lost", self.run_one(ALONE, [ERRORS]))

    def test_forgotten_objects_are_found(self) -> None:
        """Copies that failed are not deleted."""

        def forget(*args: Any) -> list[Any]:
            return []

        self.patch(remote_log_task, "to_delete", forget)
        self.assertFound("remote-unfinished", self.run_one(ALONE, [ERRORS]))

    def test_objects_without_metadata_are_found(self) -> None:
        """A deletion is said to be complete, though the store refused a part of it."""
        delete = segment_upload.delete

        def careless(*args: Any) -> None:
            try:
                delete(*args)
            except RemoteStorageError:
                pass

        async def no_sweep(*_: object) -> None:
            pass

        self.patch(segment_upload, "delete", careless)
        self.patch(RemoteLogTask, "_sweep", no_sweep)
        self.assertFound("remote-leak", self.run_one(ALONE, [ERRORS]))

    def test_wrong_offsets_by_time_are_found(self) -> None:
        """The time index is taken to say that the next few records are older, too."""
        read = remote_lookup._time_index
        self.patch(remote_lookup, "_time_index", lambda data: tuple((time, offset + 5) for time, offset in read(data)))
        self.assertFound("wrong-time", self.run_one(ALONE, []))

    def test_early_expiry_is_found(self) -> None:
        """Twice as much is counted as there is."""
        start = RemoteRetention.log_start_offset

        def early(retention: Any, index: Any, epochs: Any, start_offset: int, local_bytes: int, now_ms: int) -> int:
            return start(retention, index, epochs, start_offset, local_bytes + 10_000, now_ms)

        self.patch(RemoteRetention, "log_start_offset", early)
        self.assertFound("expired-early", self.run_one(ALONE, []))
