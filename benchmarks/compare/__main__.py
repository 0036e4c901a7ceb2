"""The command: ``python -m benchmarks.compare --help``."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import attrs

from benchmarks.compare import machine_limits, native_programs, startup
from benchmarks.compare.cells import CELLS, WARMING, Cell
from benchmarks.compare.jars import KAFKA_VERSION, kafka_jars
from benchmarks.compare.report import CellResult, Report, Section
from benchmarks.compare.rounds import LoadFailure, measure
from benchmarks.compare.systems import Kafka, Logbus, Running, StartFailure, System, checkout, start
from benchmarks.compare.wire import FETCH_VERSION, PRODUCE_VERSION, BrokerRefusal, produce_request, record_batch
from benchmarks.compare.workloads import prepare
from logbus.interpreter import InterpreterBuild

START = "start"


@attrs.frozen
class Mode:
    """
    :ivar synced: As :class:`~benchmarks.compare.systems.System` has it.
    """

    name: str
    title: str
    synced: bool | None


MODES = {
    mode.name: mode
    for mode in (
        Mode("defaults", "Each system's own defaults", None),
        Mode("equal", "Equal durability: acks=all means synced to disk on both", True),
        Mode("equal-unsynced", "Equal durability: acks=all means written, on both", False),
    )
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--cells", default="*", metavar="GLOB", help="which cells; commas between several (default: all)"
    )
    parser.add_argument("--list", action="store_true", help="print the cells' names and end")
    parser.add_argument("--mode", action="append", choices=MODES, help="repeatable; default: defaults and equal")
    parser.add_argument("--systems", default="kafka,logbus", help="kafka, logbus or both (the default)")
    parser.add_argument("--workers", type=_workers, default=1, metavar="N", help="of logbus, or auto (default 1)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a round (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="of a cell and system (default 3)")
    parser.add_argument("--max-mb", type=float, default=400, help="a producer's round ends at this much (default 400)")
    parser.add_argument(
        "--slow-sync", type=float, default=0, metavar="MS", help="delay each fsync, fdatasync and syncfs of both"
    )
    parser.add_argument("--warm", type=float, default=12.0, help="seconds of load before the first cell (default 12)")
    parser.add_argument("--kafka-version", default=KAFKA_VERSION, help=f"default {KAFKA_VERSION}")
    parser.add_argument("--librdkafka", type=Path, help="library for the rd- cells (default: confluent-kafka's own)")
    parser.add_argument("--cache", type=Path, default=Path("~/.cache/logbus-benchmarks").expanduser(), help="for jars")
    parser.add_argument("--dir", type=Path, help="where the brokers' data goes (default: a temporary directory)")
    parser.add_argument("--out", type=Path, action="append", default=[], help="repeatable; .json or .md")
    return parser.parse_args()


def _workers(text: str) -> int:
    count = len(os.sched_getaffinity(0)) if text == "auto" else int(text)
    if count < 1:
        raise ValueError(text)
    return count


def main() -> int:
    """Run what the command line asks for; 0, or 1 when a cell failed."""
    args = _arguments()
    patterns = args.cells.split(",")
    chosen = [cell for cell in CELLS if any(fnmatch.fnmatch(cell.name, p) for p in patterns)]
    with_start = any(fnmatch.fnmatch(START, p) for p in patterns)
    if args.list:
        print("\n".join([START, *(cell.name for cell in CELLS)]))
        return 0
    if not chosen and not with_start:
        print(f"no cell matches {args.cells}; --list names them", file=sys.stderr)
        return 2
    bad = [path for path in args.out if path.suffix not in (".json", ".md")]
    if bad:
        print(f"--out {bad[0]}: the name must end in .json or .md", file=sys.stderr)
        return 2
    # Ends the brokers on the way out, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="logbus-compare-", dir=args.dir, ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        try:
            report = _compare(args, chosen, with_start, scratch)
        except (RuntimeError, StartFailure, LoadFailure, BrokerRefusal) as e:
            print(e, file=sys.stderr)
            return 1
    text = report.markdown()
    print(text)
    for path in args.out:
        path.write_text(json.dumps(report.as_json(), indent=1) if path.suffix == ".json" else text)
    return int(any(result.problem for section in report.sections for result in section.results))


def _compare(args: argparse.Namespace, chosen: Sequence[Cell], with_start: bool, scratch: Path) -> Report:
    began = time.time()
    systems: list[System] = []
    for name in args.systems.split(","):
        if name == "kafka":
            systems.append(Kafka(kafka_jars(args.kafka_version, args.cache), args.kafka_version))
        elif name == "logbus":
            systems.append(Logbus(workers=args.workers))
        else:
            raise RuntimeError(f"--systems {name}: not kafka or logbus")
    programs = native_programs.build(scratch, args.librdkafka)
    _say("the machine's limits")
    machine = machine_limits.measure(scratch)
    presence = {}
    if with_start:
        _say("start, idle, stop")
        presence = startup.measure(systems, scratch)
    sections = []
    for mode in [MODES[name] for name in args.mode or ("defaults", "equal")] if chosen else []:
        title = mode.title + (f"; every sync {args.slow_sync:g} ms slower" if args.slow_sync else "")
        sections.append(Section(title, _run_mode(args, mode, systems, chosen, programs, scratch)))
    about = {
        "systems": ", ".join(_describe(system) for system in systems),
        "machine": f"{os.cpu_count()} cores, {platform.platform()}, {InterpreterBuild.running().name}",
        "rounds": f"{args.rounds} of {args.seconds:g} s or {args.max_mb:g} MB a cell and system, by turns; "
        "both brokers up, one loaded at a time; the loads share the machine with them",
        "requests": f"Produce v{PRODUCE_VERSION}, Fetch v{FETCH_VERSION}, the same bytes to both; "
        "rd- cells through librdkafka",
        "took": f"{time.time() - began:.0f} s, on {time.strftime('%Y-%m-%d', time.gmtime(began))}",
    }
    return Report(about, machine, presence, sections)


def _run_mode(
    args: argparse.Namespace,
    mode: Mode,
    systems: Sequence[System],
    chosen: Sequence[Cell],
    programs: native_programs.Programs,
    scratch: Path,
) -> list[CellResult]:
    results = []
    with contextlib.ExitStack() as stack:
        brokers: list[Running] = []
        for system in systems:
            directory = scratch / f"{mode.name}-{system.name}"
            # Syncs are counted where they matter; with the defaults the brokers run without any library of ours.
            preload = programs.slow_sync if mode.synced is not None or args.slow_sync else None
            _say(f"{mode.name}: starting {system.name}")
            broker = start(system, directory, synced=mode.synced, preload=preload, sync_delay_ms=args.slow_sync)
            stack.callback(broker.stop)
            _check_versions(broker)
            brokers.append(broker)
            if args.slow_sync and mode.synced:
                _check_delay(broker, args.slow_sync)
        for number, cell in enumerate(WARMING if args.warm > 0 else ()):
            _say(f"{mode.name}: warming up, {cell.name}")
            load = prepare(cell, f"warm-{number}", scratch / f"{mode.name}-warm-{number}", programs)
            seconds = args.warm / len(WARMING)
            measure(load, brokers, rounds=1, seconds=seconds, max_bytes=args.max_mb * 1e6)
        for number, cell in enumerate(chosen):
            _say(f"{mode.name}: {cell.name} ({number + 1} of {len(chosen)})")
            load = prepare(cell, f"compare-{number}", scratch / f"{mode.name}-load-{number}", programs)
            try:
                found = measure(load, brokers, rounds=args.rounds, seconds=args.seconds, max_bytes=args.max_mb * 1e6)
                results.append(CellResult(cell, found))
            except (LoadFailure, BrokerRefusal, OSError) as e:
                _say(f"  failed: {e}")
                results.append(CellResult(cell, {}, str(e)))
    return results


def _check_versions(broker: Running) -> None:
    served = broker.admin.versions()
    for key, version in ((0, PRODUCE_VERSION), (1, FETCH_VERSION), (2, 1), (19, 4), (20, 3)):
        low, high = served.get(key, (0, -1))
        if not low <= version <= high:
            raise RuntimeError(f"{broker.name} serves versions {low} to {high} of API {key}, not {version}")


def _check_delay(broker: Running, delay_ms: float) -> None:
    """A synced produce must take the delay; else the library did not reach the broker's syncs."""
    admin, topic = broker.admin, "compare-delay"
    admin.create_topic(topic, 1, broker.system.topic_configs(True, -1))
    leader = admin.leader(topic)
    frame = produce_request(topic, {0: record_batch(1, 100)}, -1)
    before, began = broker.syncs(), time.monotonic()
    for _ in range(3):
        leader.replay(frame)
    took = (time.monotonic() - began) * 1000
    synced = broker.syncs() - before
    admin.delete_topic(topic)
    if synced < 3 or took < 3 * delay_ms:
        raise RuntimeError(
            f"{broker.name}: three synced requests took {took:.1f} ms with {synced} syncs: no delay of "
            f"{delay_ms:g} ms each was seen"
        )
    _say(f"  {broker.name}: a synced request takes {took / 3:.1f} ms, {synced} syncs for 3 requests")


def _describe(system: System) -> str:
    if isinstance(system, Kafka):
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
        return f"Apache Kafka {system.version} (one KRaft node, heap 1 GB, {java[0] if java else 'Java'})"
    command = ["git", "-C", str(checkout()), "describe", "--always", "--dirty"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return f"logbus {commit or 'from this directory'}" + (f", {system.brokers} workers" if system.brokers > 1 else "")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
