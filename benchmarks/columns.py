"""
Measures the conversion of records to columns and back: records a second on one core, with the CRC.

The answer to a fetch lies in memory; the time is the thread's own processor time, so that other work on the machine
counts little. ``LOGBUS_PURE=1`` shows the twins that are not compiled.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from random import Random

from logbus.interpreter import InterpreterBuild
from logbus.records.batch import Record, encode_batch, iter_records
from logbus.records.batch_columns import ColumnData, Columns, extend_from_batches, partitions_of_keys
from logbus.records.column_batch import ColumnBatch
from logbus.records.compression import Codec
from logbus.records.implementations import COLUMNS_ARE_COMPILED, PACKING_IS_COMPILED
from logbus.records.read_committed import CommittedFilter

MAX_OFFSET = 2**63 - 1
NOW = 1_700_000_000_000
ROWS, BYTES = 10_000, 8 << 20


def answer(size: int, per_batch: int, count: int, *, headers: bool = False, codec: Codec = Codec.NONE) -> bytes:
    """Batches of records with values of ``size`` bytes and keys of ten."""
    random = Random(1)
    words = [random.randbytes(4).hex().encode() for _ in range(1000)]
    batches = []
    for base in range(0, count, per_batch):
        records = [
            Record(
                0,
                NOW + n,
                b"key-%06d" % random.randrange(10**6),
                b"".join(random.choices(words, k=size // 8)),
                (("trace", b"0123456789abcdef"),) if headers else (),
            )
            for n in range(per_batch)
        ]
        batches.append(encode_batch(records, base_offset=base, codec=codec))
    return b"".join(batches)


def decoded(buf: bytes, headers: bool) -> Iterator[ColumnData]:
    """Read all of ``buf`` as Spark's source does: so many rows, hand them over, go on."""
    columns, hidden = Columns(headers), CommittedFilter(())
    pos, offset = 0, 0
    while pos < len(buf):
        pos, offset = extend_from_batches(
            columns, buf, hidden, offset, MAX_OFFSET, max_rows=ROWS, max_bytes=BYTES, pos=pos
        )
        yield columns.take()


def encoded(columns: list[ColumnData]) -> int:
    """Write all rows to batches of a megabyte, CRC and all; their bytes."""
    size = 0
    for data in columns:
        start = 0
        while start < data.rows:
            batch = ColumnBatch(data, start, data.rows, 1_000_000)
            start += batch.count
            size += len(batch.build())
    return size


def seconds(call: Callable[[], object], rounds: int) -> float:
    """The least processor time of one call."""
    found = []
    for _ in range(rounds):
        begun = time.thread_time()
        call()
        found.append(time.thread_time() - begun)
    return min(found)


def rates(count: int, rounds: int) -> None:
    """Print what one core does."""
    print(f"{'M records/s':<44}{'decode':>8}{'encode':>8}{'murmur2':>9}{'as records':>12}{'MB/s decoded':>14}")
    for size, per_batch, headers, codec in (
        (100, 1, False, Codec.NONE),
        (100, 150, False, Codec.NONE),
        (100, 8000, False, Codec.NONE),
        (100, 8000, True, Codec.NONE),
        (100, 8000, False, Codec.LZ4),
        (100, 8000, False, Codec.ZSTD),
        (1024, 15, False, Codec.NONE),
        (1024, 900, False, Codec.NONE),
    ):
        rows = max(per_batch, count * 100 // size // per_batch * per_batch)
        buf = answer(size, per_batch, rows, headers=headers, codec=codec)
        columns = list(decoded(buf, headers))
        assert sum(data.rows for data in columns) == rows
        decode = seconds(lambda: sum(data.rows for data in decoded(buf, headers)), rounds)  # noqa: B023
        encode = seconds(lambda: encoded(columns), rounds)  # noqa: B023
        murmur = seconds(lambda: [partitions_of_keys(data, 0, data.rows, 12) for data in columns], rounds)  # noqa: B023
        plain = seconds(lambda: sum(1 for _ in iter_records(buf)), max(1, rounds // 3))  # noqa: B023
        title = f"{size} B, {per_batch} in a batch, {codec.name.lower()}{', a header' if headers else ''}"
        print(
            f"{title:<44}{rows / decode / 1e6:>8.2f}{rows / encode / 1e6:>8.2f}{rows / murmur / 1e6:>9.1f}"
            f"{rows / plain / 1e6:>12.2f}{len(buf) / decode / 1e6:>14.0f}"
        )


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000, help="records of 100 B; fewer where they are larger")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each case; the least time counts")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="of each measurement with threads; 0 leaves them out"
    )
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    print(f"compiled: decoding {COLUMNS_ARE_COMPILED}, encoding {PACKING_IS_COMPILED}")
    rates(options.records, options.rounds)


if __name__ == "__main__":
    main()
