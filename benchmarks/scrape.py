"""
Measures what a scrape of ``/metrics`` costs with very many partitions or groups::

    python -m benchmarks.scrape [--partitions 10000] [--limit 1000] [--rounds 5]

It prints lines, the CPU of all turns of the reactor and of the longest one, for an admin site in memory: without the
logs of the partitions, but with all that makes and formats samples.
"""

from __future__ import annotations

import argparse
import time

from tests.admin.harness import World, replica


def scrape(world: World) -> tuple[int, list[float]]:
    """Scrape once; return the lines and the CPU seconds of each turn."""
    connection = world.connect()
    connection.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    turns: list[float] = []
    lines = 0
    while not connection.closed:
        started = time.process_time()
        world.clock.turn()
        turns.append(time.process_time() - started)
        lines += connection.take().count(b"\n")
    connection.lose()
    return lines, turns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--limit", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    world = World()
    world.view.update(cluster={"admin.metrics.per.partition": "true", "admin.metrics.max.series": str(options.limit)})
    for number in range(options.partitions):
        world.replicas.add(replica("many", number))
    scrape(world)
    for _ in range(options.rounds):
        lines, turns = scrape(world)
        print(
            f"{lines:,} lines, {sum(turns) * 1e3:.0f} ms in {len(turns)} turns, the longest {max(turns) * 1e3:.1f} ms"
        )


if __name__ == "__main__":
    main()
