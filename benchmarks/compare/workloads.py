"""Makes commands of a cell: writes its requests to files once, to be replayed against either broker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import attrs

from benchmarks.compare import wire
from benchmarks.compare.cells import FULL, Cell
from benchmarks.compare.native_programs import Programs

#: How much a topic holds before it is read, at most: it stays in the page cache.
PRELOAD_BYTES = 256_000_000
PRELOAD_BATCHES = 60_000
#: Between a delivery to all tail readers and the next record.
TAIL_PAUSE_US = 200

_UNBOUNDED = "1e18"


class Target(Protocol):
    """What requests are sent to."""

    @property
    def port(self) -> int:
        """Where clients begin."""


@attrs.frozen
class Load:
    """
    One cell's requests on disk and the commands that replay them.

    :ivar topic: The same name on both systems.
    :ivar leaders: Port by partition; empty: one broker leads all, where clients begin.
    :ivar batch: The batch that is sent; None through librdkafka, which makes its own.
    :ivar preload: How many batches each partition holds before reading begins.
    """

    cell: Cell
    topic: str
    directory: Path
    programs: Programs
    batch: wire.Batch
    preload: int
    fetch: wire.FetchFrame
    incremental: wire.FetchFrame
    leaders: Mapping[int, int] = {}

    def routed(self, name: str, leaders: Mapping[int, int]) -> Load:
        """
        The same requests, each to the leader of its partition; those for partitions of several leaders are split.

        :param name: Of a directory for what is split.
        :param leaders: The port of each partition's leader.
        """
        if sorted(leaders) != list(range(self.cell.partitions)):
            raise wire.BrokerRefusal(f"{self.topic}: {len(leaders)} of {self.cell.partitions} partitions have a leader")
        if len(set(leaders.values())) == 1:
            return attrs.evolve(self, leaders=leaders)
        directory = self.directory / f"for-{name}"
        files = [path for path in self.directory.iterdir() if path.is_file()]
        directory.mkdir()
        routed = attrs.evolve(self, directory=directory, leaders=leaders)
        split = routed._split()
        for path in files:
            if path.name in split:
                (directory / path.name).write_bytes(split[path.name])
            else:
                (directory / path.name).symlink_to(path)
        return routed

    def _led(self) -> dict[int, list[int]]:
        """The partitions each port leads."""
        led: dict[int, list[int]] = {}
        for partition, port in sorted(self.leaders.items()):
            led.setdefault(port, []).append(partition)
        return led

    def _split(self) -> dict[str, bytes]:
        """The files whose requests are for several partitions, with one for each leader instead."""
        cell, led = self.cell, self._led().values()
        fetches = [cell_fetch(cell, self.topic, some) for some in led]
        if any(fetch.entries_at != self.fetch.entries_at for fetch in fetches):
            raise ValueError(f"{self.topic}: fetches of these partitions begin at different places")
        data = b"".join(fetch.data for fetch in fetches)
        files = {"fetch": data, "tail": data + (self.incremental.data if keeps_session(cell) else b"")}
        if cell.spread:
            frames = (wire.produce_request(self.topic, dict.fromkeys(some, self.batch), cell.acks) for some in led)
            files["produce"] = b"".join(frames)
        return files

    def _ports(self, broker: Target, *, each: bool) -> str:
        """
        The ports that requests go to, as the program takes them.

        :param each: There is a request for each partition, not for each leader.
        """
        ports = [port for _, port in sorted(self.leaders.items())] if each else list(self._led())
        return ",".join(map(str, ports if len(set(ports)) > 1 else ports[:1] or [broker.port]))

    @property
    def end_offset(self) -> int:
        """Of each partition after :meth:`fill`."""
        return self.preload * self.batch.records

    def fill(self, broker: Target) -> list[str] | None:
        """The command that fills the topic before it is read; None when nothing reads it."""
        if self.cell.kind not in ("fetch", "rd-consume"):
            return None
        requests = self.preload * self.cell.partitions
        return self._produce(broker, "fill", 1, 4, 120, _UNBOUNDED, requests)

    def run(self, broker: Target, seconds: float, max_bytes: float) -> list[str]:
        """The measured command."""
        cell = self.cell
        if cell.kind in ("produce", "beside-bulk"):
            return self._produce(broker, "produce", cell.connections, cell.depth, seconds, f"{max_bytes:.0f}", 0)
        if cell.kind == "fetch":
            figures = [self.fetch.entries_at, len(self.batch.data), self.batch.records, self.end_offset]
            place = [self._ports(broker, each=False), str(cell.connections), f"{seconds:g}", _UNBOUNDED]
            place += [str(self.directory / "fetch")]
            return [str(self.programs.load), "fetch", *place, *map(str, figures)]
        if cell.kind == "tail":
            positions = [self.fetch.entries_at, self.incremental.entries_at, self.incremental.session_at]
            place = [self._ports(broker, each=False), str(cell.connections), f"{seconds:g}", str(TAIL_PAUSE_US)]
            files = [str(self.directory / "produce"), str(self.directory / "tail")]
            return [str(self.programs.load), "tail", *place, *files, *map(str, positions)]
        return self._librdkafka(broker, seconds, max_bytes)

    def background(self, broker: Target, seconds: float) -> list[str] | None:
        """The command that runs beside the measured one, or None."""
        if self.cell.kind != "beside-bulk":
            return None
        return self._produce(broker, "bulk", 1, 1, seconds, _UNBOUNDED, 0)

    def _produce(
        self, broker: Target, frames: str, connections: int, depth: int, seconds: float, max_bytes: str, requests: int
    ) -> list[str]:
        ports = self._ports(broker, each=frames == "fill" or not self.cell.spread)
        figures = [ports, connections, depth, f"{seconds:g}", max_bytes, requests]
        return [str(self.programs.load), "produce", *map(str, figures), str(self.directory / frames)]

    def _librdkafka(self, broker: Target, seconds: float, max_bytes: float) -> list[str]:
        cell, library = self.cell, self.programs.librdkafka
        if library is None:
            raise RuntimeError("no librdkafka: install confluent-kafka, or name the library with --librdkafka")
        mode = cell.kind.removeprefix("rd-")
        settings = [f"acks={'all' if cell.acks == -1 else cell.acks}", f"compression.codec={cell.codec}"]
        settings += ["linger.ms=0"] if mode in ("latency", "tail") else []
        place = [f"127.0.0.1:{broker.port}", self.topic, str(cell.partitions), f"{seconds:g}", f"{max_bytes:.0f}"]
        return [
            str(self.programs.rdload),
            str(library),
            mode,
            *place,
            str(self.directory / "value"),
            str(cell.size),
            *settings,
        ]


def keeps_session(cell: Cell) -> bool:
    """Many partitions are followed with a fetch session, as the Java consumer does; one without, as librdkafka does."""
    return cell.kind == "tail" and cell.partitions > 1


def cell_fetch(cell: Cell, topic: str, partitions: list[int]) -> wire.FetchFrame:
    """The cell's Fetch of some of its partitions."""
    epoch = 0 if keeps_session(cell) else -1
    return wire.fetch_request(topic, partitions, partition_max_bytes=cell.fetch_bytes, session_epoch=epoch)


def prepare(cell: Cell, topic: str, directory: Path, programs: Programs) -> Load:
    """Write the cell's requests under ``directory``, which is made."""
    directory.mkdir(parents=True)
    batch = wire.record_batch(cell.records, cell.size, cell.codec)
    indexes = list(range(cell.partitions))
    single = [wire.produce_request(topic, {p: batch}, cell.acks) for p in indexes]
    frames = [wire.produce_request(topic, dict.fromkeys(indexes, batch), cell.acks)] if cell.spread else single
    (directory / "produce").write_bytes(b"".join(frames))
    (directory / "fill").write_bytes(b"".join(single))
    if cell.kind == "beside-bulk":
        bulk = wire.record_batch(FULL // 1010, 1000)
        (directory / "bulk").write_bytes(wire.produce_request(topic, {0: bulk}, 1))
    fetch = cell_fetch(cell, topic, indexes)
    incremental = wire.fetch_request(topic, [0], session_epoch=1)
    (directory / "fetch").write_bytes(fetch.data)
    (directory / "tail").write_bytes(fetch.data + (incremental.data if keeps_session(cell) else b""))
    if cell.kind.startswith("rd-"):
        (directory / "value").write_bytes(wire.payload(1 << 20))
    preload = max(2, min(PRELOAD_BATCHES, PRELOAD_BYTES // len(batch.data)) // cell.partitions)
    return Load(cell, topic, directory, programs, batch, preload, fetch, incremental)
