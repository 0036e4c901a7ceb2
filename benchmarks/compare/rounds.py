"""
Runs cells in short rounds, alternating between the systems, and measures the cost of each round.

Both brokers stay up during a run and are loaded one after the other, so that a figure and its counterpart are seconds
apart; the one that waits costs the other next to nothing.  Medians of rounds are reported, cost as the sum over them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import attrs

from benchmarks.compare.cells import Cell
from benchmarks.compare.process_cost import unwritten
from benchmarks.compare.systems import Running
from benchmarks.compare.touched_memory import touch
from benchmarks.compare.workloads import Load

#: More than this waiting to be written to disk is written before a round: the kernel would begin in the midst of it.
SETTLED_BYTES = 800_000_000
#: Memory made ready before a round that writes little; connections and requests take some, too.
SOME_BYTES = 200_000_000
#: Seconds the bulk producer has before and after the load it runs beside.
LEAD = 0.5


class LoadFailure(Exception):
    """A load ended with an error; the text has its words."""


@attrs.frozen
class Round:
    """
    One measured run of a load against one system.

    :ivar cpu: Seconds of processor that all its processes used.
    :ivar resident: The broker's resident bytes at the end.
    :ivar syncs: calls of fsync, fdatasync and syncfs it made; 0 when not counted.
    :ivar load_bytes: Bytes that count: of requests for producers, of records for readers.
    :ivar bulk_bytes: Bytes the load beside it moved.
    """

    seconds: float
    requests: int
    load_bytes: float
    p50_us: float
    p99_us: float
    p999_us: float
    cpu: float
    resident: int
    anonymous: int
    syncs: int
    bulk_bytes: float


@attrs.frozen
class Figures:
    """
    A cell's result for one system.  Rates and percentiles are medians of the rounds.

    :ivar cpu_us_per_request: Broker processor time by request; by record through librdkafka, by delivery in tail
        cells.
    :ivar cpu_s_per_gb: Broker processor seconds by 10⁹ bytes.
    """

    rounds: tuple[Round, ...]

    def _median(self, values: Sequence[float]) -> float:
        return statistics.median(values)

    @property
    def requests_per_s(self) -> float:
        return self._median([r.requests / r.seconds for r in self.rounds])

    @property
    def mb_per_s(self) -> float:
        return self._median([r.load_bytes / r.seconds / 1e6 for r in self.rounds])

    @property
    def p50_us(self) -> float:
        return self._median([r.p50_us for r in self.rounds])

    @property
    def p99_us(self) -> float:
        return self._median([r.p99_us for r in self.rounds])

    @property
    def p999_us(self) -> float:
        return self._median([r.p999_us for r in self.rounds])

    @property
    def cpu_us_per_request(self) -> float:
        return sum(r.cpu for r in self.rounds) / sum(r.requests for r in self.rounds) * 1e6

    @property
    def cpu_s_per_gb(self) -> float:
        return sum(r.cpu for r in self.rounds) / sum(r.load_bytes + r.bulk_bytes for r in self.rounds) * 1e9

    @property
    def resident_mb(self) -> float:
        return self._median([r.resident / 1e6 for r in self.rounds])

    @property
    def syncs_per_request(self) -> float:
        return sum(r.syncs for r in self.rounds) / sum(r.requests for r in self.rounds)

    def as_json(self) -> dict[str, Any]:
        """Medians and the rounds they come from."""
        names = ["requests_per_s", "mb_per_s", "p50_us", "p99_us", "p999_us"]
        names += ["cpu_us_per_request", "cpu_s_per_gb", "resident_mb", "syncs_per_request"]
        return {name: getattr(self, name) for name in names} | {"rounds": [attrs.asdict(r) for r in self.rounds]}


def measure(
    load: Load, brokers: Sequence[Running], *, rounds: int, seconds: float, max_bytes: float
) -> dict[str, Figures]:
    """
    Run one cell against each broker.

    :param seconds: Of a round; a producer's round also ends at ``max_bytes``.
    :return: Figures by system.
    :raise LoadFailure: A load failed, or a broker gave back other bytes than it was sent.
    """
    cell = load.cell
    done: list[Running] = []
    loads: dict[str, Load] = {}
    try:
        for broker in brokers:
            configs = broker.system.topic_configs(broker.synced, cell.acks)
            broker.admin.create_topic(load.topic, cell.partitions, configs)
            done.append(broker)
            loads[broker.name] = load.routed(broker.name, broker.admin.leaders(load.topic))
            _fill(loads[broker.name], broker)
        taken: dict[str, list[Round]] = {broker.name: [] for broker in brokers}
        for broker in brokers:
            # Warm: connections, caches, compiled code.
            _round(loads[broker.name], broker, max(0.5, seconds / 2), max_bytes)
        for turn in range(rounds):
            for broker in brokers if turn % 2 == 0 else brokers[::-1]:
                taken[broker.name].append(_round(loads[broker.name], broker, seconds, max_bytes))
        return {name: Figures(tuple(figures)) for name, figures in taken.items()}
    finally:
        for broker in done:
            broker.admin.delete_topic(load.topic)


def _fill(load: Load, broker: Running) -> None:
    command = load.fill(broker)
    if command is None:
        return
    requests = run_load(command, 180)["requests"]
    if requests != load.preload * load.cell.partitions:
        raise LoadFailure(
            f"{broker.name} took {requests:g} of {load.preload * load.cell.partitions} batches in two minutes"
        )
    sent, stored = load.batch.data, broker.admin.first_batch(load.topic)
    if sent[8:12] + sent[16:] != stored:
        raise LoadFailure(f"{broker.name} gave back other bytes than it was sent")


def _round(load: Load, broker: Running, seconds: float, max_bytes: float) -> Round:
    settle()
    touch(load.directory, int(1.3 * max_bytes) if load.cell.writes_much else SOME_BYTES)
    beside = load.background(broker, seconds + 2 * LEAD)
    process = subprocess.Popen(beside, stdout=subprocess.PIPE, text=True) if beside else None
    try:
        if process:
            time.sleep(LEAD)
        before, syncs = broker.cost(), broker.syncs()
        result = run_load(load.run(broker, seconds, max_bytes), seconds + 90)
        bulk = 0.0
        if process:
            bulk = json.loads(process.communicate(timeout=seconds + 60)[0])["bytes_out"]
        after = broker.cost()
    finally:
        if process and process.poll() is None:
            process.kill()
            process.wait(10)
    reads = load.cell.kind in ("fetch", "rd-consume")
    return Round(
        seconds=result["seconds"],
        requests=int(result["requests"]),
        load_bytes=result["bytes_in" if reads else "bytes_out"],
        p50_us=result["p50_us"],
        p99_us=result["p99_us"],
        p999_us=result["p999_us"],
        cpu=after.cpu - before.cpu,
        resident=after.resident,
        anonymous=after.anonymous,
        syncs=broker.syncs() - syncs,
        bulk_bytes=bulk,
    )


def run_load(command: list[str], patience: float) -> dict[str, float]:
    """
    The figures of a load, which is given so many seconds.

    :raise LoadFailure: It failed, or did not end.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        raise LoadFailure(f"{command[1]} did not end within {patience:g} s") from None
    if done.returncode:
        raise LoadFailure(done.stderr.strip()[-500:] or f"{command[1]} ended with status {done.returncode}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def settle() -> None:
    """Have the disk take what former rounds wrote, so that it does not slow down the next one's broker."""
    if unwritten() > SETTLED_BYTES:
        os.sync()


__all__ = ["Cell", "Figures", "LoadFailure", "Round", "measure", "run_load", "settle"]
