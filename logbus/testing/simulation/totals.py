"""The numbers of a simulated run, and their sums over several."""

from __future__ import annotations

from collections import Counter

from attrs import define, field

from logbus.testing.simulation.checks.history import Anomaly
from logbus.testing.simulation.schedule import Fault


@define(kw_only=True)
class Totals:
    """
    The numbers of a run, or the sums over several.

    :ivar acknowledged: batches, of those ``sent``; ``committed``: transactions, of those ``begun``.
    :ivar phantoms: values that were read, and lost when all members lost power, where that is allowed.
    :ivar worst_lag: by how many seconds a consumer was behind at the most.
    :ivar effects: faults that had an effect, by kind; ``moot``: those that had none.
    :ivar errors: of clients, by name.
    """

    acknowledged: int = 0
    sent: int = 0
    committed: int = 0
    begun: int = 0
    phantoms: int = 0
    virtual_seconds: float = 0.0
    real_seconds: float = 0.0
    worst_lag: float = 0.0
    effects: Counter[str] = field(factory=Counter)
    moot: Counter[str] = field(factory=Counter)
    errors: Counter[str] = field(factory=Counter)

    def add(self, other: Totals) -> None:
        """Count one more run."""
        self.acknowledged += other.acknowledged
        self.sent += other.sent
        self.committed += other.committed
        self.begun += other.begun
        self.phantoms += other.phantoms
        self.virtual_seconds += other.virtual_seconds
        self.real_seconds += other.real_seconds
        self.worst_lag = max(self.worst_lag, other.worst_lag)
        self.effects += other.effects
        self.moot += other.moot
        self.errors += other.errors


@define(kw_only=True)
class RunOutcome(Totals):
    """
    The outcome of a run.

    :ivar seed: of the run; ``schedule``: its faults; ``told``: its events, as lines.
    :ivar anomalies: the violations.
    :ivar trace: a checksum of the run: equal for equal runs.
    """

    seed: int
    schedule: list[Fault]
    anomalies: list[Anomaly]
    trace: int
    events: int
    told: list[str]
