"""
Measures replication: three brokers and one ZooKeeper, beside a single broker in the same run::

    python -m benchmarks.replication [--parts bytes,small,latency,failover,shutdown,idle] [--seconds 5] [--rounds 3]

``bytes``
    1 KB records in full batches to one partition: MB/s, and CPU of the leader and of each follower by GB, with three
    replicas and acks=all, beside one replica with acks=1 on a broker of its own, by turns, and beside the same bytes
    moved and summed by nothing else (``benchmarks/replication_floor.py``).  Of rates the median of the rounds counts,
    of CPU the least: what else the machine does only adds to it.  ``--in-flight`` requests are sent ahead, by default
    as many as producers send by default.
``small``
    Batches of five records of 100 B, one for each of 1,000 partitions in every request: CPU of the leader and of each
    follower by batch, with three replicas and acks=all, beside one replica with acks=1, by turns; the least of the
    rounds.
``latency``
    One small record at a time: acks=1, acks=all without and with syncs.
``failover``
    The leader of 1 and of 1,000 partitions is killed: seconds until each takes records again, beside the session's
    timeout.
``shutdown``
    A broker that leads 1,000 partitions stops in order, under a retrying producer: its errors, and how long it took.
``idle``
    3,000 partitions of three replicas each, and nothing to do: CPU and memory of each broker.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.compare import machine_limits
from benchmarks.compare.cells import FULL, Cell
from benchmarks.compare.native_programs import Programs, build
from benchmarks.compare.process_cost import cost
from benchmarks.compare.rounds import settle
from benchmarks.compare.touched_memory import touch
from benchmarks.compare.workloads import Load, prepare
from benchmarks.replication_floor import PIECE
from benchmarks.replication_floor import measure as floor
from logbus.interpreter import InterpreterBuild
from logbus.testing.broker_process import BrokerProcess
from logbus.testing.zookeeper import ZooKeeper

BROKERS = 3
SESSION_SECONDS = 4.0
MANY = 1000
SMALL = 550
"""Bytes of records in a small batch."""
ALL = -1
"""acks=all."""
A_REQUEST = 250
"""Partitions that are made by one request."""
MAX_BYTES = 700e6
ROUNDS = 3
IN_FLIGHT = 5
FLOOR_PIECES = 300
IDLE_SECONDS = 30.0


@attrs.frozen
class Member:
    """One broker and where it is."""

    process: BrokerProcess

    @property
    def pid(self) -> int:
        """Of its process."""
        return self.process.process.pid

    @property
    def port(self) -> int:
        """Of its Kafka listener."""
        return int(self.process.addresses["kafka"].rpartition(":")[2])


@attrs.frozen
class Replicated:
    """Brokers that form a cluster."""

    members: list[Member]

    @property
    def bootstrap(self) -> str:
        """For Kafka clients."""
        return ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    def create(self, topic: str, assignment: list[list[int]], **configs: str) -> None:
        """A topic whose first replicas lead; returns when all brokers serve it."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        overrides = {name.replace("_", "."): value for name, value in configs.items()}
        new = NewTopic(topic, len(assignment), replica_assignment=assignment, config=overrides)
        admin.create_topics([new], operation_timeout=60, request_timeout=60)[topic].result()


@contextmanager
def cluster(directory: Path, brokers: int = BROKERS) -> Iterator[Replicated]:
    """Start ZooKeeper and brokers; end them."""
    directory.mkdir()
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper())
        members = []
        for number in range(brokers):
            config = {
                "broker.id": str(number),
                "zookeeper.connect": zookeeper.connect,
                "zookeeper.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
                "log.flush.before.ack": "false",
                "auto.leader.rebalance.enable": "false",
            }
            listeners = [
                "kafka:tcp:0:interface=127.0.0.1",
                "admin:tcp:0:interface=127.0.0.1",
            ]
            process = BrokerProcess(config, directory / f"broker-{number}", listeners)
            stack.callback(process.kill)
            members.append(Member(process))
        for member in members:
            member.process.wait_ready(60)
        yield Replicated(members)


def run(load: Load, to: Member, seconds: float, max_bytes: float = MAX_BYTES) -> dict[str, float]:
    """One measured command."""
    ran = subprocess.run(
        load.run(to, seconds, max_bytes),
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds + 90,
    )
    result: dict[str, float] = json.loads(ran.stdout)
    return result


def bytes_part(
    directory: Path, programs: Programs, seconds: float, rounds: int = ROUNDS, in_flight: int = IN_FLIGHT
) -> Iterator[tuple[str, str]]:
    """CPU by GB of leader and followers, and throughput, by turns with a single broker's."""
    alone_cell = Cell("alone", "produce", 1000, batch=FULL, depth=in_flight)
    three_cell = Cell("three", "produce", 1000, batch=FULL, depth=in_flight, acks=-1)
    with cluster(directory / "three") as three, cluster(directory / "one", 1) as one:
        one.create("alone", [[0]])
        three.create("three", [[0, 1, 2]], min_insync_replicas="2")
        alone = prepare(alone_cell, "alone", directory / "alone-load", programs)
        replicated = prepare(three_cell, "three", directory / "three-load", programs)
        run(alone, one.members[0], 1)
        run(replicated, three.members[0], 1)
        figures: dict[str, list[float]] = {}

        def note(name: str, value: float) -> None:
            figures.setdefault(name, []).append(value)

        for _ in range(rounds):
            settle()
            touch(directory, int(1.3 * MAX_BYTES))
            before = cost(one.members[0].pid).cpu
            result = run(alone, one.members[0], seconds)
            gigabytes = result["bytes_out"] / 1e9
            note("alone, MB/s", result["bytes_out"] / result["seconds"] / 1e6)
            note("alone, s/GB", (cost(one.members[0].pid).cpu - before) / gigabytes)
            settle()
            touch(directory, int(3 * 1.3 * MAX_BYTES))
            costs = [cost(member.pid).cpu for member in three.members]
            result = run(replicated, three.members[0], seconds)
            gigabytes = result["bytes_out"] / 1e9
            time.sleep(1.0)  # Followers hear of the last high watermark.
            spent = [cost(member.pid).cpu - then for member, then in zip(three.members, costs, strict=True)]
            note("three, MB/s", result["bytes_out"] / result["seconds"] / 1e6)
            note("leader, s/GB", spent[0] / gigabytes)
            note("follower, s/GB", max(spent[1:]) / gigabytes)
            settle()
            touch(directory, int(4 * 1.3 * FLOOR_PIECES * PIECE))
            bare, replicated_bare = (floor(directory, followers, FLOOR_PIECES, in_flight) for followers in (0, 2))
            note("floor alone, s/GB", bare.leader)
            note("floor, leader, s/GB", replicated_bare.leader)
            note("floor, follower, s/GB", replicated_bare.follower)
        middle = {
            name: statistics.median(values) if "MB/s" in name else min(values) for name, values in figures.items()
        }
        yield "one replica, acks=1", f"{middle['alone, MB/s']:,.0f} MB/s, {middle['alone, s/GB']:.2f} s CPU/GB"
        yield (
            "three replicas, acks=all",
            f"{middle['three, MB/s']:,.0f} MB/s, leader {middle['leader, s/GB']:.2f}, "
            f"follower {middle['follower, s/GB']:.2f} s CPU/GB",
        )
        yield (
            "ratio, and what the leader pays more",
            f"{middle['three, MB/s'] / middle['alone, MB/s']:.2f}x, "
            f"{middle['leader, s/GB'] - middle['alone, s/GB']:+.2f} s CPU/GB",
        )
        more = middle["floor, leader, s/GB"] - middle["floor alone, s/GB"]
        yield (
            "system calls and checksum alone, leader more, follower",
            f"{more:+.2f}, {middle['floor, follower, s/GB']:.2f} s CPU/GB",
        )


def small_part(directory: Path, programs: Programs, seconds: float, rounds: int = ROUNDS) -> Iterator[tuple[str, str]]:
    """CPU by batch where many partitions get a little each, by turns with a single broker."""
    with cluster(directory / "three-small") as three, cluster(directory / "one-small", 1) as one:
        loads: list[tuple[str, Replicated, Load]] = []
        for name, brokers, acks in (("alone", one, 1), ("three", three, ALL)):
            replicas = list(range(len(brokers.members)))
            brokers.create(name, [replicas] * MANY, min_insync_replicas=str(min(2, len(replicas))))
            cell = Cell(name, "produce", 100, batch=SMALL, acks=acks, partitions=MANY, spread=True)
            loads.append((name, brokers, prepare(cell, name, directory / f"{name}-small-load", programs)))
            run(loads[-1][2], brokers.members[0], 1)
        costs: dict[str, list[float]] = {"alone": [], "three": [], "follower": []}
        latencies: list[float] = []
        for _ in range(rounds):
            for name, brokers, load in loads:
                before = [cost(member.pid).cpu for member in brokers.members]
                result = run(load, brokers.members[0], seconds)
                time.sleep(0.5)  # Followers hear of the last high watermark.
                batches = result["requests"] * MANY
                spent = [
                    (cost(member.pid).cpu - then) * 1e6 / batches
                    for member, then in zip(brokers.members, before, strict=True)
                ]
                costs[name].append(spent[0])
                if len(spent) > 1:
                    costs["follower"].append(max(spent[1:]))
                    latencies.append(result["p50_us"] / 1000)
        alone, leader, follower = (min(values) for values in costs.values())
        yield (
            f"a batch for each of {MANY} partitions",
            f"one replica {alone:.1f}, leader {leader:.1f} ({leader - alone:+.1f}), "
            f"follower {follower:.1f} us CPU a batch",
        )
        yield "the same, acks=all, a request", f"p50 {min(latencies):.0f} ms"


def latency_part(directory: Path, programs: Programs, seconds: float) -> Iterator[tuple[str, str]]:
    """Measures the time until one record is acknowledged."""
    with cluster(directory / "latency") as three:
        for name, acks, flush in (
            ("acks=1", 1, "false"),
            ("acks=all, no sync", -1, "false"),
            ("acks=all, synced", -1, "true"),
        ):
            topic = f"latency-{acks}-{flush}"
            three.create(topic, [[0, 1, 2]], min_insync_replicas="2", flush_before_ack=flush)
            load = prepare(Cell(topic, "produce", 100, acks=acks), topic, directory / topic, programs)
            run(load, three.members[0], 1)
            result = run(load, three.members[0], seconds)
            rate = result["requests"] / result["seconds"]
            yield (
                f"latency, {name}",
                f"p50 {result['p50_us'] / 1000:.2f}, p99 {result['p99_us'] / 1000:.2f}, "
                f"p999 {result['p999_us'] / 1000:.2f} ms; {rate:,.0f} requests/s",
            )


def spread(topic: str, count: int) -> Iterator[tuple[str, list[list[int]]]]:
    """Topics for so many partitions led by each of three brokers."""
    for first in range(0, count * BROKERS, A_REQUEST):
        numbers = range(first, min(first + A_REQUEST, count * BROKERS))
        yield f"{topic}-{first}", [[(n + i) % BROKERS for i in range(BROKERS)] for n in numbers]


def produce_to_all(three: Replicated, topics: dict[str, list[int]], errors: list[str]) -> float:
    """Seconds until a record was acknowledged by each of these partitions."""
    began = time.monotonic()
    producer = Producer(
        {
            "bootstrap.servers": three.bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "message.timeout.ms": 60000,
            "retry.backoff.ms": 50,
            # Left to itself the client is what is waited for: it goes up to one second, and to ten.
            "retry.backoff.max.ms": 200,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.fast.interval.ms": 100,
            "log_level": 0,
        }
    )

    def delivered(error: Any, _: object) -> None:
        if error is not None:
            errors.append(str(error))

    for topic, partitions in topics.items():
        for partition in partitions:
            producer.produce(topic, b"again", partition=partition, on_delivery=delivered)
            producer.poll(0)
    producer.flush(90)
    return time.monotonic() - began


def wait_for_leaders(three: Replicated, led: dict[str, list[int]], gone: int) -> None:
    """Until a live broker says that all these partitions have other leaders; a producer looks once a second only."""
    live = [f"127.0.0.1:{member.port}" for number, member in enumerate(three.members) if number != gone]
    admin = AdminClient({"bootstrap.servers": ",".join(live), "log_level": 0})
    while True:
        topics = admin.list_topics(timeout=10).topics
        leaders = {topics[topic].partitions[number].leader for topic, numbers in led.items() for number in numbers}
        if not leaders & {gone, -1}:
            return
        time.sleep(0.1)


def failover_part(directory: Path, programs: Programs, seconds: float) -> Iterator[tuple[str, str]]:
    """A killed leader's partitions."""
    for count in (1, MANY):
        with cluster(directory / f"failover-{count}") as three:
            led: dict[str, list[int]] = {}
            for topic, assignment in spread("kill", count):
                three.create(topic, assignment, min_insync_replicas="2")
                led[topic] = [number for number, replicas in enumerate(assignment) if replicas[0] == 0]
            errors: list[str] = []
            produce_to_all(three, led, errors)
            began = time.monotonic()
            three.members[0].process.kill()
            wait_for_leaders(three, led, 0)
            elected = time.monotonic() - began
            produce_to_all(three, led, errors)
            took = time.monotonic() - began
            yield (
                f"fail-over, {count} partitions a broker led",
                f"{elected:.2f} s until all had leaders, {took:.2f} s until all took records "
                f"(session timeout {SESSION_SECONDS:.0f} s), {len(errors)} errors",
            )


def shutdown_part(directory: Path, programs: Programs, seconds: float) -> Iterator[tuple[str, str]]:
    """A broker that stops in order."""
    with cluster(directory / "shutdown") as three:
        led: dict[str, list[int]] = {}
        for topic, assignment in spread("stop", MANY):
            three.create(topic, assignment, min_insync_replicas="2")
            led[topic] = [number for number, replicas in enumerate(assignment) if replicas[0] == 0]
        errors: list[str] = []
        produce_to_all(three, led, errors)
        stopping = threading.Event()
        rounds: list[float] = []

        def keep_producing() -> None:
            while not stopping.is_set():
                rounds.append(produce_to_all(three, led, errors))

        producing = threading.Thread(target=keep_producing)
        producing.start()
        time.sleep(2)
        began = time.monotonic()
        three.members[0].process.stop(60)
        took = time.monotonic() - began
        time.sleep(2)
        stopping.set()
        producing.join()
        yield (
            f"controlled shutdown, {MANY} leaders",
            f"{took:.2f} s; {len(errors)} produce errors in {len(rounds) * MANY:,} records, "
            f"slowest round of {MANY:,} {max(rounds):.2f} s",
        )


def idle_part(directory: Path, programs: Programs, seconds: float) -> Iterator[tuple[str, str]]:
    """Many partitions and nothing to do."""
    for count in (10, MANY):
        with cluster(directory / f"idle-{count}") as three:
            for topic, assignment in spread("idle", count):
                three.create(topic, assignment)
            time.sleep(5)
            before = [cost(member.pid).cpu for member in three.members]
            time.sleep(IDLE_SECONDS)
            after = [cost(member.pid) for member in three.members]
            cpu = [(now.cpu - then) / IDLE_SECONDS * 100 for now, then in zip(after, before, strict=True)]
            yield (
                f"idle, {count * BROKERS} partitions of 3 replicas",
                f"{', '.join(f'{one:.1f}' for one in cpu)} % of a core; "
                f"{', '.join(f'{now.resident / 1e6:.0f}' for now in after)} MB",
            )


PARTS: dict[str, Callable[[Path, Programs, float], Iterator[tuple[str, str]]]] = {
    "bytes": bytes_part,
    "small": small_part,
    "latency": latency_part,
    "failover": failover_part,
    "shutdown": shutdown_part,
    "idle": idle_part,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="which, with commas between")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a round")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the parts bytes and small")
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT, help="requests sent ahead, in the part bytes")
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    parts = {
        **PARTS,
        "bytes": partial(bytes_part, rounds=options.rounds, in_flight=options.in_flight),
        "small": partial(small_part, rounds=options.rounds),
    }
    wanted = options.parts.split(",")
    for part in wanted:
        if part not in PARTS:
            parser.error(f"--parts: {part!r} is none of {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR"), prefix="logbus-replication-") as name:
        directory = Path(name)
        programs = build(directory)
        for limit in machine_limits.measure(directory):
            print(f"{limit.name:<45}  {limit.median:.2f} {limit.unit} ({limit.low:.2f} to {limit.high:.2f})")
        for part in wanted:
            for what, figure in parts[part](directory, programs, options.seconds):
                print(f"{what:<45}  {figure}", flush=True)


if __name__ == "__main__":
    main()
