"""The ``logbus produce`` command: sends lines from standard input as records."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import Progress, print_json, quantity

if TYPE_CHECKING:
    from logbus.client.cluster.cluster import Cluster
    from logbus.client.producer.record_accumulator import BatchOutcome, ProducerBatch

ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
_READ = 1 << 18


@click.command()
@click.argument("topic")
@click.option(
    "--key-separator", "-K", metavar="TEXT", help="Split lines into key and value at this text. Default: no keys."
)
@click.option("--partition", "-p", type=click.IntRange(min=0), help="Default: chosen by the key, or any.")
@click.option(
    "--acks",
    type=click.Choice(list(ACKS)),
    default="all",
    show_default=True,
    help="Replicas that must acknowledge a record.",
)
@click.option(
    "--codec",
    "-z",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="Compression of batches.",
)
@click.option(
    "--header",
    "--headers",
    "-H",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header for each record; may be repeated.",
)
@click.option("--null", "null", metavar="TEXT", help="Send a line with this value as null: a tombstone.")
@click.option("--batch-bytes", type=click.IntRange(min=1), default=512 * 1024, show_default=True)
@click.option(
    "--linger-ms", type=click.IntRange(min=0), default=20, show_default=True, help="Wait for a batch to fill."
)
@click.option("--create", "create", is_flag=True, help="Let the broker create the topic, if it is configured to.")
@json_option
@bootstrap_options
def produce(
    topic: str,
    key_separator: str | None,
    partition: int | None,
    acks: str,
    codec: str,
    headers: tuple[str, ...],
    null: str | None,
    batch_bytes: int,
    linger_ms: int,
    create: bool,
    as_json: bool,
    bootstrap: str,
    timeout: float,
) -> None:
    """Send each line from standard input as a record; the newline is not part of it.

    \b
    Example:
      printf 'hello\\nworld\\n' | logbus produce greetings
      logbus produce prices --key-separator : --codec zstd < prices.txt
    """
    from random import Random

    from twisted.internet.defer import CancelledError

    from logbus.cli.runner import CommandFailed, with_cluster
    from logbus.client.producer.producer import Producer
    from logbus.client.retry import Unreachable
    from logbus.errors import LogbusError
    from logbus.records.compression import codec_named

    if key_separator == "":
        raise click.BadParameter("it is empty", param_hint="--key-separator")
    separator = None if key_separator is None else os.fsencode(key_separator)
    null_value = None if null is None else os.fsencode(null)
    fixed = tuple(_header(each) for each in headers)

    async def work(cluster: Cluster) -> dict[str, Any]:
        found = await cluster.topic(topic, create=create)
        producer = Producer(
            cluster,
            wall_clock=time.time,
            random=Random(),
            acks=ACKS[acks],
            codec=codec_named(codec),
            batch_bytes=batch_bytes,
            linger=linger_ms / 1000,
            delivery_timeout=timeout,
            request_timeout=timeout,
            buffer_bytes=16 * max(batch_bytes, 1 << 20),
        )
        failures: list[Exception] = []
        refused: LogbusError | None = None
        progress = Progress()
        started = time.monotonic()
        count = size = written = 0
        latest: ProducerBatch | None = None
        unanswered: set[ProducerBatch] = set()
        lines = _Lines(cluster.reactor)

        def ended(batch: ProducerBatch, outcome: BatchOutcome) -> None:
            nonlocal written
            unanswered.discard(batch)
            if not isinstance(outcome, Exception):
                written += batch.builder.count
            elif not failures:
                failures.append(outcome)
                lines.stop()

        def send(line: bytes, now: int) -> ProducerBatch:
            key: bytes | None = None
            value: bytes | None = line
            if separator is not None:
                key, found_it, value = line.partition(separator)
                if not found_it:
                    raise CommandFailed(f"line {count + 1} has no {key_separator!r} in it")
            if value == null_value and null_value is not None:
                value = None
            return producer.put(found, value, key, partition=partition, timestamp=now, headers=fixed)[0]

        try:
            while not failures and refused is None:
                chunk = await lines.more()
                if chunk is None:
                    break
                now = int(time.time() * 1000)
                for line in chunk:
                    try:
                        batch = send(line, now)
                    except LogbusError as problem:
                        # The lines before it are still sent.
                        refused = problem
                        break
                    count += 1
                    if batch is not latest:
                        latest = batch
                        if batch not in unanswered:
                            unanswered.add(batch)
                            batch.when_done(partial(ended, batch))
                size += sum(map(len, chunk))
                progress.show(f"{quantity(count)} records, {quantity(size)}B")
                room = producer.room()
                if room is not None:
                    await room
            await producer.flush()
        except CancelledError:
            # Lines that were read are sent, since they are gone from the input.
            await producer.flush().addTimeout(5.0, cluster.reactor, lambda result, _: result)
            raise
        finally:
            lines.stop()
            producer.abort()
            progress.clear()
        if failures and isinstance(failures[0], Unreachable) and not written:
            raise failures[0]
        if failures or refused is not None:
            why = "; ".join(str(each) for each in (refused, *failures) if each is not None)
            raise CommandFailed(f"{why}; records written: {written}{'' if written == count else f' of {count}'}")
        return {"topic": topic, "records": count, "bytes": size, "seconds": round(time.monotonic() - started, 6)}

    summary = with_cluster(bootstrap, timeout, work)
    if as_json:
        print_json(summary)


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    return name, os.fsencode(value)


class _Lines:
    """Reads lines from standard input without blocking: a file, a pipe or a terminal."""

    def __init__(self, reactor: Any, fd: int | None = None) -> None:
        self._reactor = reactor
        self._fd = sys.stdin.fileno() if fd is None else fd
        self._rest: list[bytes] = []
        self._ended = False
        self._waiting: Any = None

    # IReadDescriptor.

    def fileno(self) -> int:
        return self._fd

    def logPrefix(self) -> str:
        return "stdin"

    def doRead(self) -> None:
        self._reactor.removeReader(self)
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            try:
                waiting.callback(os.read(self._fd, _READ))
            except OSError:
                waiting.errback()

    def connectionLost(self, reason: object) -> None:
        self.stop()

    # For the command.

    async def more(self) -> list[bytes] | None:
        """Wait for at least one line, and return all that are available; None at the end."""
        from twisted.internet.defer import Deferred

        while not self._ended:
            arrived: Deferred[bytes] = Deferred(self._cancelled)
            self._waiting = arrived
            self._reactor.addReader(self)
            data = await arrived
            if not data:
                self._ended = True
                last = b"".join(self._rest)
                return [last] if last else None
            head, newline, tail = data.rpartition(b"\n")
            if not newline:
                self._rest.append(tail)
                continue
            lines = b"".join((*self._rest, head)).split(b"\n")
            self._rest = [tail] if tail else []
            return lines
        return None

    def _cancelled(self, _: object) -> None:
        self._waiting = None
        self._reactor.removeReader(self)

    def stop(self) -> None:
        """Stop reading; a waiting :meth:`more` returns None."""
        self._ended = True
        self._reactor.removeReader(self)
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(b"")
