"""``kafka-producer-perf-test``: sends records, and prints rates and latencies (Kafka: ProducerPerformance)."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from random import Random

from attrs import define, field, frozen

from logbus.cli.kafka_scripts.client_settings import Settings
from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.console_producer import produce_options
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import client_properties, key_values, with_cluster
from logbus.cli.record_sender import SendOptions
from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster
from logbus.client.producer.producer import Producer
from logbus.client.producer.record_accumulator import BatchOutcome, ProducerBatch
from logbus.coroutines import sleep
from logbus.errors import LogbusError

_PROGRAM = "kafka-producer-perf-test: error:"
_AT_ONCE, _BYTES_AT_ONCE = 500, 1 << 20
"""Records that are sent in one turn of the reactor, and their bytes, unless one has more."""
_PERCENTILES = (("50th", 0.5), ("95th", 0.95), ("99th", 0.99), ("99.9th", 0.999))
_MB = 1024 * 1024

PARSER = OptionParser(
    "Sends records, and prints rates and latencies.",
    [
        Option("topic", "topic", "The topic."),
        Option("num-records", "number", "How many records.", bits=64),
        Option("record-size", "bytes", "Bytes of a record.", bits=32),
        Option("payload-file", "file", "A file whose lines are sent, chosen at random."),
        Option("payload-delimiter", "text", r"What separates them; default \n."),
        Option("payload-monotonic", help="Send the numbers from 0 on."),
        Option("throughput", "records per second", "At most so many records per second; -1: as many as possible."),
        Option("reporting-interval", "milliseconds", "Between lines of progress; default 5000.", bits=64),
        Option("warmup-records", "number", "Leave so many records out of the figures.", bits=64),
        Option("command-property", "name=value ...", "Properties of the producer, such as acks=1 linger.ms=10."),
        Option("producer-props", "name=value ...", "The same, as it was called before."),
        Option("producer.config", "config file", "As --command-config, as it was called before."),
        Option("print-metrics", refusal="'logbus bench produce' prints figures of the broker, too"),
        Option("transactional-id", "id", refusal="it measures without transactions"),
        Option("transaction-duration-ms", "milliseconds", refusal="it measures without transactions"),
    ],
)
_RENAMED = {"producer-props": "command-property", "producer.config": "command-config"}


@frozen(kw_only=True)
class PerformanceRequest:
    """
    The records to send.

    :ivar payloads: values, of which each record has one by chance; empty: its number.
    :ivar rate: records per second; None: as many as possible.
    :ivar interval: seconds between lines of progress.
    :ivar warmup: records that are left out of the figures.
    """

    count: int
    payloads: list[bytes]
    rate: float | None
    interval: float
    warmup: int
    send: SendOptions


@define
class Latencies:
    """Of the records that were acknowledged, in milliseconds; and how many they are."""

    began: float
    size: int = 0
    times: list[float] = field(factory=list)
    window_began: float = field(init=False)
    window_size: int = 0
    window: list[float] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.window_began = self.began

    def add(self, latencies: list[float], size: int) -> None:
        """Note those of a batch."""
        self.times += latencies
        self.window += latencies
        self.size += size
        self.window_size += size

    def window_line(self, now: float) -> str:
        """The line about those since the last such line."""
        count, seconds = len(self.window), max(now - self.window_began, 1e-3)
        average = sum(self.window) / count if count else 0.0
        line = (
            f"{count} records sent, {count / seconds:.1f} records/sec ({self.window_size / seconds / _MB:.2f} MB/sec), "
            f"{average:.1f} ms avg latency, {max(self.window, default=0.0):.1f} ms max latency."
        )
        self.window_began, self.window, self.window_size = now, [], 0
        return line

    def total_line(self, now: float) -> str:
        """The line about all of them."""
        times, seconds = sorted(self.times), max(now - self.began, 1e-3)
        count = len(times)
        average = sum(times) / count if count else 0.0
        percentiles = [
            f"{int(times[min(count - 1, int(count * share))] if count else 0)} ms {name}"
            for name, share in _PERCENTILES
        ]
        return (
            f"{count} records sent, {count / seconds:f} records/sec ({self.size / seconds / _MB:.2f} MB/sec), "
            f"{average:.2f} ms avg latency, {times[-1] if times else 0.0:.2f} ms max latency, "
            f"{', '.join(percentiles)}."
        )


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    for name in ("topic", "num-records", "throughput"):
        if not options.has(name):
            raise UsageError(f"{_PROGRAM} argument --{name} is required")
    for old, new in _RENAMED.items():
        if options.has(old):
            say(f"Option --{old} has been deprecated and will be removed in a future version. Use --{new} instead.")
    # Several properties may follow one option.
    pairs = [*options.values("producer-props"), *options.values("command-property"), *options.words]
    properties = client_properties(options, ("producer.config", "command-config")) | key_values(pairs)
    settings = Settings(properties)
    request = performance_request(options, settings)
    settings.complain_unused()
    if not options.has("bootstrap-server") and not properties.get("bootstrap.servers"):
        raise UsageError(f"{_PROGRAM} one of --bootstrap-server and --command-property bootstrap.servers=… is required")

    async def work(cluster: Cluster, admin: AdminClient) -> str | None:
        return await _Sender(cluster, request).run()

    try:
        failed = with_cluster(options, work, properties)
    except LogbusError as e:
        failed = str(e)
    if failed is not None:
        complain(failed)
    return 0 if failed is None else 1


def performance_request(options: ParsedOptions, settings: Settings) -> PerformanceRequest:
    """
    What the options ask for.

    :raise UsageError: they are wrong, or do not go together.
    """
    count, size = options.integer("num-records") or 0, options.integer("record-size")
    given = [name for name in ("record-size", "payload-file", "payload-monotonic") if options.has(name)]
    if len(given) != 1:
        raise UsageError(f"{_PROGRAM} one of --record-size, --payload-file and --payload-monotonic is required")
    if count <= 0:
        raise UsageError(f"{_PROGRAM} --num-records should be greater than zero")
    if size is not None and size <= 0:
        raise UsageError("--record-size should be greater than zero.")
    throughput = options.text("throughput")
    try:
        rate = float(throughput)
    except ValueError:
        raise UsageError(f"{_PROGRAM} argument --throughput: could not convert '{throughput}' to a number") from None
    warmup = options.integer("warmup-records") or 0
    if warmup >= count:
        raise UsageError("The value for --warmup-records must be strictly fewer than the number of records to send.")
    interval = options.integer("reporting-interval")
    if interval is not None and interval <= 0:
        raise UsageError("--reporting-interval should be greater than zero.")
    return PerformanceRequest(
        count=count,
        payloads=_payloads(options, size),
        rate=rate if rate > 0 else None,
        interval=5.0 if interval is None else interval / 1000,
        warmup=warmup,
        send=produce_options(options, settings),
    )


def _payloads(options: ParsedOptions, size: int | None) -> list[bytes]:
    if size is not None:
        # As Kafka's: capital letters by chance, of which each record has the same.
        letters = Random(0)
        return [bytes(letters.randrange(65, 91) for _ in range(size))]
    path = options.value("payload-file")
    if path is None:
        return []
    delimiter = (options.value("payload-delimiter") or r"\n").encode().decode("unicode_escape")
    try:
        found = Path(path).read_bytes().split(delimiter.encode())
    except OSError as e:
        raise UsageError(f"{path}: {e.strerror}") from None
    if not found[-1]:
        found.pop()
    if not found:
        raise UsageError(f"File does not exist or empty file provided: {path}")
    return found


class _Sender:
    """Sends the records."""

    def __init__(self, cluster: Cluster, request: PerformanceRequest) -> None:
        self._cluster, self._request, send = cluster, request, request.send
        self._producer = Producer(
            cluster,
            acks=send.acks,
            codec=send.codec,
            batch_bytes=send.batch_bytes,
            linger=send.linger,
            delivery_timeout=max(120.0, send.timeout),
            request_timeout=send.timeout,
        )
        self._put: dict[ProducerBatch, list[tuple[float, int]]] = {}
        self._failed: Exception | None = None
        self._lost = 0
        self._left_out = request.warmup
        self._latencies = Latencies(time.monotonic())

    async def run(self) -> str | None:
        """Returns what went wrong."""
        request, clock = self._request, self._cluster.reactor
        topic = await self._cluster.topic(request.send.topic, create=True)
        random, began, sent = Random(0), time.monotonic(), 0
        most = max(1, min(_AT_ONCE, _BYTES_AT_ONCE // max([1, *map(len, request.payloads)])))
        self._latencies = Latencies(began)
        try:
            while sent < request.count:
                at_once = min(most, request.count - sent)
                if request.rate is not None:
                    due = int((time.monotonic() - began) * request.rate) + 1 - sent
                    at_once = min(at_once, due)
                    if at_once <= 0:
                        await sleep(clock, max(0.0, (sent + 1) / request.rate - (time.monotonic() - began)))
                        continue
                now = time.monotonic()
                for number in range(sent, sent + at_once):
                    value = random.choice(request.payloads) if request.payloads else b"%d" % number
                    batch, _ = self._producer.put(topic, value, timestamp=int(time.time() * 1000))
                    if batch not in self._put:
                        self._put[batch] = []
                        batch.when_done(partial(self._done, batch))
                    self._put[batch].append((now, len(value)))
                sent += at_once
                room = self._producer.room()
                await (sleep(clock, 0) if room is None else room)
                if time.monotonic() - self._latencies.window_began >= request.interval:
                    say(self._latencies.window_line(time.monotonic()))
            await self._producer.flush()
        finally:
            self._producer.abort()
        say(self._latencies.total_line(time.monotonic()))
        return None if self._failed is None else f"{self._lost} records were not written: {self._failed}"

    def _done(self, batch: ProducerBatch, outcome: BatchOutcome) -> None:
        put, now = self._put.pop(batch), time.monotonic()
        if isinstance(outcome, Exception):
            self._failed = self._failed or outcome
            self._lost += len(put)
            return
        skipped = min(self._left_out, len(put))
        self._left_out -= skipped
        if skipped and not self._left_out:
            self._latencies = Latencies(now)
        counted = put[skipped:]
        self._latencies.add([(now - at) * 1000 for at, _ in counted], sum(size for _, size in counted))
