"""
Simulated clusters with faults, over several seeds.

``LOGBUS_SIMULATION_SEEDS`` in the environment runs more of them, ``LOGBUS_SIMULATION_FIRST`` others.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Set

import pytest
from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.replication.partition import Partition
from logbus.cluster.replication.replica_repair import ReplicaRepair
from logbus.storage import log_flusher
from logbus.testing.simulation.run import Outcome, Run
from logbus.testing.simulation.schedule import KINDS, REMOTE_KINDS, TRANSACTION_KINDS, WORKER_KINDS, Fault
from logbus.testing.simulation.settings import (
    ON_ONE_MACHINE,
    SHARES,
    TIERED,
    TRANSACTIONS,
    TRANSACTIONS_ON_ONE_MACHINE,
    WORKLOADS,
    Settings,
    kinds_for,
)

SEEDS = int(os.environ.get("LOGBUS_SIMULATION_SEEDS", "20"))
FIRST = int(os.environ.get("LOGBUS_SIMULATION_FIRST", "1"))
MOST = max(SEEDS, 100)
"""Seeds within which each kind of fault has an effect."""

THREE = Settings(seconds=30, between=5)
ALONE = evolve(THREE, brokers=1, replication=1, min_insync=1)
WORKERS = evolve(THREE, workers=True, kinds=ON_ONE_MACHINE)
WORKERS_ALONE = evolve(WORKERS, replication=1, min_insync=1)
EXACTLY_ONCE = evolve(THREE, workloads=(TRANSACTIONS,), kinds=kinds_for((TRANSACTIONS,)), rate=15, between=3)
EXACTLY_ONCE_ALONE = evolve(EXACTLY_ONCE, brokers=1, replication=1, min_insync=1)
EXACTLY_ONCE_WORKERS = evolve(
    EXACTLY_ONCE, workers=True, kinds=TRANSACTIONS_ON_ONE_MACHINE, replication=1, min_insync=1
)
SHARED = evolve(THREE, workloads=(SHARES,), rate=8, between=4)
SHARED_ALONE = evolve(SHARED, brokers=1, replication=1, min_insync=1)
ARCHIVED = evolve(THREE, workloads=(TIERED,), kinds=kinds_for((TIERED,)), rate=20, between=3)
ARCHIVED_APART = evolve(
    ARCHIVED, kinds=(*REMOTE_KINDS, "kill", "restart", "expire", "elect", "reassign", "freeze"), between=2
)
ARCHIVED_ALONE = evolve(ARCHIVED, brokers=1, replication=1, min_insync=1)

AT_ONCE = 20
"""Seeds of one test, at most: one that fails has a name, and several processes can take their share."""
SCENARIOS = {
    "three-brokers": (THREE, SEEDS),
    "one-broker": (ALONE, SEEDS // 2),
    "workers-alone": (WORKERS_ALONE, SEEDS // 5),
    "workers": (WORKERS, SEEDS // 10),
    "transactions": (EXACTLY_ONCE, SEEDS // 4),
    "transactions-on-one-broker": (EXACTLY_ONCE_ALONE, SEEDS // 6),
    "transactions-on-workers": (EXACTLY_ONCE_WORKERS, SEEDS // 12),
    "share-groups": (SHARED, SEEDS // 4),
    "share-groups-on-one-broker": (SHARED_ALONE, SEEDS // 6),
    "tiered": (ARCHIVED, SEEDS // 10),
    "tiered-and-its-store": (ARCHIVED_APART, SEEDS // 20),
    "tiered-on-one-broker": (ARCHIVED_ALONE, SEEDS // 20),
}
"""How many seeds each has. The first of them are also to show each kind of fault."""
FURTHER = [
    (name, range(FIRST + start, FIRST + min(start + AT_ONCE, seeds)))
    for name, (_, seeds) in SCENARIOS.items()
    for start in range(AT_ONCE, seeds, AT_ONCE)
]

_ONE = """
from twisted.logger import globalLogBeginner
globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
from logbus.testing.simulation.run import Run
from logbus.testing.simulation.settings import Settings
outcome = Run({settings}, {seed}).run()
print(outcome.trace, outcome.events, outcome.acknowledged + outcome.committed)
"""


class RunTests(SynchronousTestCase):
    """Seeds."""

    def run_one(self, settings: Settings, seed: int, schedule: list[Fault] | None = None) -> Outcome:
        outcome = Run(settings, seed, schedule).run()
        # Errors of disks that were told to fail, and of machines that stopped, are in the log; the run judges them.
        self.flushLoggedErrors()
        return outcome

    def assertClean(self, outcome: Outcome) -> None:
        self.assertEqual(problems(outcome), [])

    def run_many(self, name: str, kinds: Set[str] = frozenset()) -> None:
        """
        The first seeds of a scenario, and more until each kind of fault has had an effect.

        :param kinds: those that must have one; which seeds they need changes with the product.
        """
        settings, seeds = SCENARIOS[name]
        effects: Counter[str] = Counter()
        acknowledged = done = 0
        while done < min(seeds, AT_ONCE) or (kinds - effects.keys() and done < MOST):
            outcome = self.run_one(settings, FIRST + done)
            self.assertClean(outcome)
            effects += outcome.effects
            acknowledged += outcome.acknowledged + outcome.committed
            done += 1
        self.assertGreater(acknowledged, least_acknowledged(settings) * done)
        self.assertGreater(effects.total(), done)
        self.assertEqual(kinds - effects.keys(), set(), "these never had an effect")

    def test_three_brokers(self) -> None:
        """Nothing acknowledged is lost, doubled or turned round, whatever happens, and in the end all works again."""
        self.run_many("three-brokers", KINDS.keys())

    def test_one_broker(self) -> None:
        """Nor with one broker, which comes back with what was synced."""
        self.run_many("one-broker", {kind for kind, (_, brokers, _) in KINDS.items() if brokers == 1})

    def test_alone_in_sync(self) -> None:
        """A leader alone in sync may lose what it showed when it loses power, but nothing that it acknowledged."""
        settings = Settings(brokers=2, replication=2, min_insync=1, rate=100, seconds=25)
        faults = [Fault(1.0, "kill", {"broker": 2, "down": 30.0})]
        faults += [
            Fault(at, "power-cut", {"broker": 1, "down": 0.2, "mode": "lose"}) for at in (12.0, 14.0, 16.0, 18.0)
        ]
        for seed in (1, 2, 3):
            outcome = self.run_one(settings, seed, faults)
            self.assertClean(outcome)
            self.assertGreater(outcome.acknowledged, 100)

    def test_workers(self) -> None:
        """Nor with workers of one supervisor, whose metadata store dies with it, and who move logs by links."""
        # With one replica, as is their default, and with three.
        self.run_many("workers-alone")
        self.run_many("workers")

    def test_each_fault_of_workers(self) -> None:
        """Has an effect where one can be expected."""
        passing = ("topic", {"name": "passing", "seconds": 1.0})
        faults = [
            Fault(float(at), kind, arguments)
            for at, kind, arguments in (
                (2, "rebalance", {"by": 1}),
                (9, "supervisor-kill", {"down": 1.0}),
                (14, "supervisor-freeze", {"seconds": 9.0}),
                (28, "metadata-no-space", {"seconds": 3.0}),
                (28.5, *passing),
                (36, "slow-metadata-disk", {"seconds": 3.0, "latency": 0.1}),
                (40, "metadata-disk-error", {"down": 4.0, "written": True}),
                (40.5, *passing),
                (50, "machine-power-cut", {"down": 1.0, "mode": "lose"}),
            )
        ]
        outcome = self.run_one(evolve(WORKERS_ALONE, seconds=60), 1, faults)
        self.assertClean(outcome)
        self.assertEqual(WORKER_KINDS.keys() - outcome.effects.keys(), set(), "these had no effect")

    def test_transactions(self) -> None:
        """Each is there as a whole or not at all, whoever dies in the middle of it; stages copy each record once."""
        self.run_many("transactions", TRANSACTION_KINDS.keys())

    def test_transactions_on_one_broker(self) -> None:
        """Nor does one broker tear what it comes back with."""
        self.run_many("transactions-on-one-broker")

    def test_transactions_on_workers(self) -> None:
        """Nor do workers, when the log of a coordinator or of a partition moves in the middle of a transaction."""
        self.run_many("transactions-on-workers")

    def test_share_groups(self) -> None:
        """What a member has accepted for certain nobody is given again, and what is written somebody is given."""
        self.run_many("share-groups")
        self.run_many("share-groups-on-one-broker")

    def test_tiered_storage(self) -> None:
        """Nor is a record lost that is in an object store only, nor one of its objects forgotten."""
        self.run_many("tiered")
        self.run_many("tiered-and-its-store")
        self.run_many("tiered-on-one-broker")

    def test_the_same_seed_is_the_same_run(self) -> None:
        """To the last segment on the network: here, and in processes that hash otherwise."""
        everything = (*WORKLOADS, SHARES, TIERED)
        for brokers, workloads in ((1, WORKLOADS[:1]), (3, WORKLOADS[:1]), (3, everything)):
            settings = Settings(
                brokers=brokers,
                replication=brokers,
                min_insync=min(2, brokers),
                seconds=20,
                between=3,
                workloads=workloads,
                kinds=kinds_for(workloads),
            )
            # All that there is runs in the last one.
            is_last = workloads == everything
            here = [self.run_one(settings, seed) for seed in ((5, 6) if is_last else (5,))]
            traces = [(each.trace, each.events, each.acknowledged + each.committed) for each in here]
            self.assertEqual(len(set(traces)), len(here))
            for hash_seed in ("1", "2") if is_last else ("1",):
                self.assertEqual(elsewhere(5, settings, hash_seed), traces[0])

    def test_a_schedule_instead_of_the_seeds(self) -> None:
        """Given faults happen, and no others."""
        fault = Fault(10.0, "power-cut", {"broker": 1, "down": 2.0, "mode": "lose"})
        outcome = self.run_one(evolve(ALONE, seconds=20), 1, [fault])
        self.assertClean(outcome)
        self.assertEqual(outcome.effects, {"power-cut": 1})
        self.assertEqual(outcome.schedule, [fault])

    def test_flipped_bits(self) -> None:
        """What is stored damaged is found and repaired, whoever leads; readers get what was written."""
        faults = [
            Fault(float(at), "bit-flip", {"broker": broker, "at": share, "bit": 3})
            for at, broker, share in ((8, 1, 0.1), (10, 2, 0.4), (12, 3, 0.95), (16, 1, 0.5), (18, 2, 0.99))
        ]
        elections = [Fault(9.0, "expire", {"broker": 2}), Fault(14.0, "restart", {"broker": 1})]
        outcome = self.run_one(evolve(THREE, seconds=25, rate=15), 1, [*faults, *elections])
        self.assertClean(outcome)
        self.assertGreaterEqual(outcome.effects["bit-flip"], 2)

    def test_unrepaired_damage_is_found(self) -> None:
        """A bit that flipped is still there in the end."""

        async def nothing(*_: object) -> None:
            pass

        self.patch(ReplicaRepair, "_repair_one", nothing)
        faults = [Fault(12.0, "bit-flip", {"broker": 1, "at": 0.3, "bit": 0})]
        outcome = self.run_one(evolve(THREE, seconds=15), 1, faults)
        self.assertIn("not-repaired", {each.kind for each in outcome.anomalies})

    def test_missing_syncs_are_found(self) -> None:
        """It loses what was acknowledged."""
        fault = Fault(15.0, "power-cut", {"broker": 1, "down": 2.0, "mode": "lose"})
        self.patch(log_flusher, "sync_all", lambda *_: None)
        outcome = self.run_one(evolve(ALONE, seconds=20), 1, [fault])
        self.assertTrue({"unseen", "lost-write"} & {each.kind for each in outcome.anomalies})

    def test_unsynced_records_may_be_lost(self) -> None:
        """After a power failure of all brokers; a single broker loses nothing that others have."""
        down = [[each, 2.0] for each in (1, 2, 3)]
        lost = 0
        # At some moments all happens to be written back.
        for moment in (12.5, 14.5, 17.0):
            faults = [Fault(moment, "blackout", {"mode": "lose", "down": down})]
            outcome = self.run_one(evolve(THREE, seconds=20, flush=False), 1, faults)
            self.assertClean(outcome)
            lost += outcome.phantoms
        self.assertGreater(lost, 0)
        outcome = self.run_one(
            evolve(THREE, seconds=20, flush=False),
            1,
            [Fault(15.0, "power-cut", {"broker": 1, "down": 2.0, "mode": "lose"})],
        )
        self.assertClean(outcome)
        self.assertEqual(outcome.phantoms, 0)

    def test_unsynced_transactions_may_stay_open(self) -> None:
        """After a power failure of all brokers a coordinator may not know of a transaction: nothing ends it."""
        fault = Fault(3.5, "blackout", {"mode": "lose", "down": [[each, 1.0] for each in (1, 2, 3)]})
        for seed in (1, 3):
            outcome = self.run_one(evolve(THREE, seconds=6, flush=False, workloads=(TRANSACTIONS,)), seed, [fault])
            self.assertClean(outcome)

    def test_stale_follower_positions_are_found(self) -> None:
        """A follower is believed to have what a new leader has, before it said so in this epoch."""
        begin = Partition._begin_leading

        def believe(partition: Partition, log_end_offset: int, now: float) -> None:
            begin(partition, log_end_offset, now)
            for follower in partition.followers.values():
                if follower.broker_id in partition.leader_and_isr.isr:
                    follower.log_end_offset = log_end_offset

        self.patch(Partition, "_begin_leading", believe)
        # Nobody is killed: a broker is not trusted after that, which hides the mistake.
        settings = evolve(THREE, seconds=60, between=2, kinds=("islands", "flap", "isolate", "cut"))
        # Few seeds show it, and the first of these does: others are for when runs have changed.
        self.assertTrue(any(self.run_one(settings, seed).anomalies for seed in range(25, 100)))


if FURTHER:

    @pytest.mark.parametrize(
        ("name", "seeds"), FURTHER, ids=[f"{name}-{seeds[0]}-to-{seeds[-1]}" for name, seeds in FURTHER]
    )
    def test_further_seeds(name: str, seeds: range) -> None:
        """Nothing acknowledged is lost, doubled or turned round by those either."""
        settings, _ = SCENARIOS[name]
        acknowledged = effects = 0
        for seed in seeds:
            outcome = Run(settings, seed).run()
            assert problems(outcome) == []
            acknowledged += outcome.acknowledged + outcome.committed
            effects += outcome.effects.total()
        # A few seeds may have fewer than others.
        if len(seeds) == AT_ONCE:
            assert acknowledged > least_acknowledged(settings) * len(seeds)
            assert effects > len(seeds)


def problems(outcome: Outcome) -> list[str]:
    """What a run has found, with its seed."""
    return [f"seed {outcome.seed}: {each}; {outcome.told}" for each in outcome.anomalies]


def least_acknowledged(settings: Settings) -> int:
    """By a seed, of records or transactions."""
    return 20 if TRANSACTIONS in settings.workloads else 50


def elsewhere(seed: int, settings: Settings, hash_seed: str) -> tuple[int, int, int]:
    """The trace of a run in a process of its own."""
    code = _ONE.format(seed=seed, settings=settings)
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    printed = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True, timeout=120
    ).stdout
    trace, events, acknowledged = map(int, printed.split())
    return trace, events, acknowledged
