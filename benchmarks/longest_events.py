"""
Measures for how long events that concern very many partitions, groups or transactional ids hold the reactor::

    python -m benchmarks.longest_events [--partitions 10000] [--groups 50000] [--ids 20000] [--topics 10000]

They are what happens on a broker when others come and go: it takes office as the controller, gets other roles for its
partitions, loads groups and transactions; what goes on after a response: offsets expire, or their topic is deleted;
what is done periodically to all logs; and requests about all that there is.
The broker is a process of its own, which is told over a Unix socket to begin each of them. As in
:mod:`benchmarks.longest_turns`, a turn is all that the reactor does between two polls, in CPU of its thread.
"""

from __future__ import annotations

import argparse
import mmap
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from benchmarks import requests_about_many
from benchmarks.compare.systems import Logbus, free_port
from benchmarks.event_commands import control, the_broker
from benchmarks.longest_turns import FIGURES, Client, add_stacks, environment, serve, wait_for
from logbus.interpreter import InterpreterBuild
from logbus.records.file_slice import joined
from logbus.wire.messages.api_versions import ApiVersionsRequest
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from logbus.wire.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest
from logbus.wire.messages.transactions import InitProducerIdRequest

IN_FLIGHT = 200
"""Requests of one connection."""
CALM, MOST_IDLE = 0.3, 0.05
"""An event is over when the broker took less than that share of a core for so many seconds."""


@attrs.define
class Bench:
    """A broker that is measured."""

    client: Client
    control: socket.socket
    figures: mmap.mmap
    only: str

    def ask_many(self, messages: Iterator[Any], version: int) -> list[Any]:
        """Responses to many requests over one connection."""
        wire, found, left = self.client.wire, [], 0
        with socket.create_connection(("127.0.0.1", self.client.port), 300) as sock, sock.makefile("rb") as stream:

            def receive() -> None:
                (size,) = struct.unpack(">i", stream.read(4))
                found.append(wire.receive(stream.read(size))[1])

            for message in messages:
                sock.sendall(joined(wire.request(message, version)[1]))
                left += 1
                if left == IN_FLIGHT:
                    receive()
                    left -= 1
            for _ in range(left):
                receive()
        return found

    def tell(self, command: str) -> None:
        """Have the broker do something, and wait until it is done."""
        self.control.sendall(command.encode() + b"\n")
        answer = self.control.recv(10_000)
        if answer != b"done\n":
            sys.exit(f"{command}: {answer.decode()}")

    def measure(self, name: str, event: Callable[[], object]) -> None:
        """Print a line about an event."""
        self.calm()
        FIGURES.pack_into(self.figures, 0, 0.0, 0.0)
        begun = time.monotonic()
        event()
        seconds = time.monotonic() - begun
        self.calm()
        longest, total = FIGURES.unpack_from(self.figures)
        if self.only.lower() in name.lower():
            print(f"{name:44} {longest * 1e3:9.1f} ms {total * 1e3:6.0f} ms {seconds:8.2f}", flush=True)

    def ask_each(self, requests: Iterable[requests_about_many.Named]) -> None:
        """Measure requests, each as an event."""
        for name, message, version in requests:
            self.measure(name, partial(self.client.ask, message, version))

    def calm(self) -> None:
        """Until nothing of an event is left to do."""
        before, now = -1.0, 0.0
        while now - before > MOST_IDLE * CALM:
            time.sleep(CALM)
            # A turn is noted when the next one begins.
            self.client.ask(ApiVersionsRequest(), 0)
            before, now = now, FIGURES.unpack_from(self.figures)[1]


def a_topic(name: str, partitions: int) -> CreatableTopic:
    """A topic to create."""
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


def commit(group: str, topic: str, retention_ms: int = -1) -> OffsetCommitRequest:
    """A commit of one offset by a group without members."""
    asked = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[asked])]
    return OffsetCommitRequest(group_id=group, retention_time_ms=retention_ms, topics=topics)


def run(bench: Bench, partitions: int, groups: int, ids: int, topics: int) -> None:
    """All events."""
    client = bench.client
    prepare(client)
    print(f"{'event':44} {'longest turn':>12} {'CPU':>9} {'seconds':>8}")
    if groups:
        run_groups(bench, groups, partitions)
    if ids:
        names = [f"x{n}" for n in range(ids)]
        bench.ask_many((InitProducerIdRequest(transactional_id=n, transaction_timeout_ms=60_000) for n in names), 4)
        bench.tell("roles follow __transaction_state")
        bench.measure(f"{ids:,} transactional ids loaded", lambda: bench.tell("roles lead __transaction_state"))
        bench.ask_each(requests_about_many.about_ids(names))
    if partitions:
        run_partitions(bench, partitions)
    if topics:
        run_topics(bench, topics)
    bench.ask_each(requests_about_many.about_users())
    if partitions:
        bench.measure(
            f"a topic of {2 * partitions:,} partitions deleted",
            lambda: client.ask(DeleteTopicsRequest(topic_names=["many0"], timeout_ms=60_000), 3),
        )


def prepare(client: Client) -> None:
    """Two topics, and coordinators."""
    for name, count in (("kept", 1), ("gone", 1)):
        created = client.ask(CreateTopicsRequest(topics=[a_topic(name, count)], timeout_ms=60_000), 5)
        if created.topics[0].error_code:
            sys.exit(f"{created}")
    for kind in (0, 1):
        # The first look-up creates the internal topic.
        client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"]), 4)
    while client.ask(commit("first", "kept"), 2).topics[0].partitions[0].error_code:
        time.sleep(0.1)
    identified = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    while client.ask(identified, 4).error_code:
        time.sleep(0.1)


def run_groups(bench: Bench, groups: int, offsets: int) -> None:
    """Very many groups, and one with very many offsets."""
    client, names = bench.client, [f"g{n}" for n in range(groups)]
    check(bench.ask_many((commit(name, "gone") for name in names), 2))
    bench.tell("roles follow __consumer_offsets")
    bench.measure(f"{groups:,} groups with an offset loaded", lambda: bench.tell("roles lead __consumer_offsets"))
    bench.measure(
        f"the topic of {groups:,} offsets deleted",
        lambda: client.ask(DeleteTopicsRequest(topic_names=["gone"], timeout_ms=60_000), 3),
    )
    check(bench.ask_many((commit(name, "kept", 1) for name in names), 2))
    bench.ask_each(requests_about_many.about_groups(names))
    bench.measure(f"{groups:,} offsets expired", lambda: bench.tell("expire"))
    check(bench.ask_many((commit(name, "kept") for name in names), 2))
    bench.ask_each([requests_about_many.deleted_groups(names)])
    if offsets:
        client.ask(CreateTopicsRequest(topics=[a_topic("all", offsets)], timeout_ms=120_000), 5)
        committed = [
            OffsetCommitRequestPartition(partition_index=n, committed_offset=1, committed_metadata="")
            for n in range(offsets)
        ]
        many = [OffsetCommitRequestTopic(name="all", partitions=committed)]
        client.ask(OffsetCommitRequest(group_id="first", retention_time_ms=1, topics=many), 2)
        bench.measure(f"{offsets:,} offsets of one group expired", lambda: bench.tell("expire"))
        client.ask(OffsetCommitRequest(group_id="first", topics=many), 2)
        client.ask(DeleteTopicsRequest(topic_names=["all"], timeout_ms=60_000), 3)


def run_partitions(bench: Bench, partitions: int) -> None:
    """A topic of very many partitions."""
    client = bench.client
    bench.measure(
        f"a topic of {partitions:,} partitions created",
        lambda: client.ask(CreateTopicsRequest(topics=[a_topic("many0", partitions)], timeout_ms=120_000), 5),
    )
    bench.measure(f"{partitions:,} partitions followed", lambda: bench.tell("roles follow many"))
    bench.measure(f"{partitions:,} partitions led", lambda: bench.tell("roles lead many"))
    bench.measure("the follower of them is gone", lambda: bench.tell("lose many"))
    bench.measure("lags looked for", lambda: bench.tell("lags"))
    bench.measure(f"office taken with {partitions:,} partitions", lambda: bench.tell("office"))
    bench.ask_each(requests_about_many.about_partitions("many0", partitions))
    for work in ("checkpoint", "checkpoint_high_watermarks", "expire_producers"):
        bench.tell("write many")
        bench.measure(f"{work.replace('_', ' ')}, all written to", lambda work=work: bench.tell(f"house {work}"))  # type: ignore[misc]
    bench.measure("logs to compact looked for", lambda: bench.tell("clean"))
    bench.measure("closed segments looked for", lambda: bench.tell("scrub"))


def run_topics(bench: Bench, topics: int) -> None:
    """Very many topics of one partition."""
    client, names = bench.client, [f"one{n}" for n in range(topics)]
    created = [a_topic(name, 1) for name in names]
    bench.measure(
        f"{topics:,} topics created",
        lambda: client.ask(CreateTopicsRequest(topics=created, timeout_ms=300_000), 5),
    )
    bench.measure(f"{topics:,} topics followed", lambda: bench.tell("roles follow one"))
    bench.measure(f"{topics:,} topics led", lambda: bench.tell("roles lead one"))
    bench.measure(f"office taken with {topics:,} topics", lambda: bench.tell("office"))
    bench.ask_each(requests_about_many.about_topics(names))
    bench.ask_each([requests_about_many.deleted_topics(names)])


def check(responses: list[Any]) -> None:
    """All offsets were committed."""
    if error := next((code for each in responses if (code := each.topics[0].partitions[0].error_code)), 0):
        sys.exit(f"offsets were refused with error {error}")


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--serve"]:
        path, told = sys.argv[2:4]
        broker = the_broker()
        serve(path, sys.argv[4:], lambda: control(told, broker))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=50_000)
    parser.add_argument("--ids", type=int, default=20_000, help="transactional ids")
    parser.add_argument("--topics", type=int, default=10_000, help="of one partition each")
    parser.add_argument("--only", default="", help="events whose names contain this are printed")
    add_stacks(parser)
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    with tempfile.TemporaryDirectory(prefix="logbus-events-") as name:
        directory, port = Path(name), free_port()
        noted = directory / "figures"
        noted.write_bytes(bytes(FIGURES.size))
        twistd = Logbus().prepare(directory, port, None)
        command = [
            *(sys.executable, "-m", "benchmarks.longest_events", "--serve", str(noted), str(directory / "control")),
            *twistd[twistd.index("-n") :],
            *("--set", "offsets.topic.num.partitions=1", "--set", "transaction.state.log.num.partitions=1"),
            *("--set", "log.flush.before.ack=false"),
        ]
        with noted.open("r+b") as file, open(os.devnull, "w") as nowhere:
            process = subprocess.Popen(
                command, stdout=None if os.environ.get("SHOW") else nowhere, env=environment(options)
            )
            figures = mmap.mmap(file.fileno(), FIGURES.size)
            try:
                wait_for(port, process)
                with socket.socket(socket.AF_UNIX) as sock:
                    sock.connect(str(directory / "control"))
                    bench = Bench(Client(port), sock, figures, options.only)
                    run(bench, options.partitions, options.groups, options.ids, options.topics)
            finally:
                process.terminate()
                process.wait(60)


if __name__ == "__main__":
    main()
