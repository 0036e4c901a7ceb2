"""Random faults of the workers of one supervisor, under a producer and a consumer: ``soak --workers N``."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.traffic import Traffic
from tests.faults.worker_machine import SECONDS, WorkerMachine

TOPIC = "soak"
PARTITIONS = 4

Fault = Callable[[WorkerMachine, random.Random], None]


def worker_killed(machine: WorkerMachine, chance: random.Random) -> None:
    pid = chance.choice(machine.workers())
    os.kill(pid, signal.SIGKILL)
    machine.wait_whole(without=pid)


def worker_killed_at_its_start(machine: WorkerMachine, chance: random.Random) -> None:
    """As soon as there is one again, and at some moment of its start."""
    pid = chance.choice(machine.workers())
    others = set(machine.workers()) - {pid}
    os.kill(pid, signal.SIGKILL)
    machine.wait_whole(without=pid)
    [pid] = set(machine.workers()) - others
    time.sleep(chance.uniform(0, 0.5))
    os.kill(pid, signal.SIGKILL)
    machine.wait_whole(without=pid)


def all_workers_killed(machine: WorkerMachine, chance: random.Random) -> None:
    killed = machine.workers()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    for pid in killed:
        machine.wait_whole(without=pid)


def worker_frozen(machine: WorkerMachine, chance: random.Random) -> None:
    pid = chance.choice(machine.workers())
    os.kill(pid, signal.SIGSTOP)
    time.sleep(chance.uniform(0.2, 5))
    os.kill(pid, signal.SIGCONT)


def supervisor_frozen(machine: WorkerMachine, chance: random.Random) -> None:
    """And the metadata store with it: sessions end."""
    machine.supervisor.send_signal(signal.SIGSTOP)
    time.sleep(chance.uniform(0.2, 5))
    machine.supervisor.send_signal(signal.SIGCONT)


def supervisor_killed(machine: WorkerMachine, chance: random.Random) -> None:
    """And another one started at once."""
    machine.kill()
    machine.start()


def supervisor_killed_with_a_worker_frozen(machine: WorkerMachine, chance: random.Random) -> None:
    """Which the next supervisor waits for."""
    pid = chance.choice(machine.workers())
    os.kill(pid, signal.SIGSTOP)
    machine.kill()
    # It goes on while the next one starts.
    os.spawnlp(os.P_NOWAIT, "sh", "sh", "-c", f"sleep {chance.uniform(0.5, 3):.1f}; kill -CONT {pid}")
    machine.start()


def restarted(machine: WorkerMachine, chance: random.Random) -> None:
    machine.stop()
    machine.start()


FAULTS: tuple[Fault, ...] = (
    worker_killed, worker_killed_at_its_start, all_workers_killed, worker_frozen, supervisor_frozen,
    supervisor_killed, supervisor_killed_with_a_worker_frozen, restarted,
)  # fmt: skip


def soak(faults: int, records: int, seed: int, workers: int) -> bool:
    """Whether all was well."""
    chance = random.Random(seed)
    done: Counter[str] = Counter()
    pauses: dict[str, float] = defaultdict(float)
    begin = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as directory,
        WorkerMachine(Path(directory), workers, {"zookeeper.session.timeout.ms": 2000}) as machine,
    ):
        admin = AdminClient({"bootstrap.servers": machine.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(SECONDS)
        with Traffic(cast(Any, machine), TOPIC, PARTITIONS) as traffic:
            order = [FAULTS[number % len(FAULTS)] for number in range(faults)]
            chance.shuffle(order)
            for number, fault in enumerate(order, 1):
                traffic.restart_pauses()
                fault(machine, chance)
                done[fault.__name__] += 1
                traffic.more(100, SECONDS)
                pauses[fault.__name__] = max(pauses[fault.__name__], traffic.worst_pause)
                print(
                    f"{number:4} {fault.__name__:40} {traffic.acknowledged} acknowledged, "
                    f"paused {traffic.worst_pause:.1f} s",
                    flush=True,
                )
            while traffic.acknowledged < records:
                traffic.more(100)
            traffic.finish()
        wrong = traffic.anomalies()
    print(f"seed {seed}, {time.monotonic() - begin:.0f} s")
    for name, count in sorted(done.items()):
        print(f"  {count:4} {name}: writes stood still for at most {pauses[name]:.1f} s")
    print(f"  {traffic.acknowledged} records acknowledged, {len(traffic.refused)} refused")
    print(f"  {len(wrong)} violations", *wrong[:20], sep="\n    ")
    return not wrong
