"""Tests of :mod:`logbus.mirror.skipped_records`, and of batches that pass a sieve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logbus.client.consumer.consumer_record import FetchedBatch
from logbus.errors import DecodeError
from logbus.mirror.batch_copy import batch_copies
from logbus.mirror.copied_range import TopicIds
from logbus.mirror.skipped_records import Sieve, SkippedRecord, SkippedRecords
from logbus.model import TopicPartition
from logbus.records.batch import Record, decode_batch, encode_batch, read_header
from logbus.records.compression import Codec

PARTITION = TopicPartition("orders", 0)
IDS = TopicIds(UUID(int=1), UUID(int=2))
RENEWED = TopicIds(UUID(int=3), UUID(int=2))


def _sieve(limit: int | None, known: Mapping[int, int | None], refused: Mapping[int, int]) -> Sieve:
    """One that knows of records, with what the copy took then, and of refused ones, with their sizes."""
    sieve = Sieve(limit, IDS)
    for offset, then in known.items():
        sieve.known.set(offset, SkippedRecord(PARTITION, offset, 1000, then, IDS))
    for offset, size in refused.items():
        sieve.refused.set(offset, size)
    return sieve


@given(
    st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=6), min_size=1, max_size=5),
    st.integers(80, 500),
    st.sampled_from([Codec.NONE, Codec.GZIP]),
    st.data(),
)
def test_what_passes(batches: list[list[int]], limit: int, codec: Codec, data: st.DataObject) -> None:
    """
    What is copied and what was found are together all records; all that is copied is within the limit, and ranges are
    right.
    """
    fetched, offset, records = [], 0, list[Record]()
    for sizes in batches:
        values = [data.draw(st.binary(min_size=each, max_size=each)) for each in sizes]
        here = [Record(offset + n, 1000, None, each, ()) for n, each in enumerate(values)]
        encoded = encode_batch(here, base_offset=offset, codec=codec)
        header = read_header(encoded)
        fetched.append(FetchedBatch(header, encoded))
        records += here
        offset += len(here)
    known = data.draw(st.sets(st.integers(0, offset - 1)))
    refused = dict.fromkeys(data.draw(st.sets(st.integers(0, offset - 1))), 12345)
    sieve = _sieve(limit, dict.fromkeys(known), refused)
    copied: dict[int, bytes | None] = {}
    for each in batch_copies(fetched, sieve):
        found = list(decode_batch(each.builder.build()))
        for index, record in enumerate(found):
            copied[each.offset_of(index)] = record.value
            alone = encode_batch([record], codec=codec)
            assert len(alone) <= limit or len(found) == 1
    assert copied.keys().isdisjoint(known | refused.keys())
    assert sorted({*copied, *sieve.found, *known}) == list(range(offset))
    assert all(copied[each.offset] == each.value for each in records if each.offset in copied)
    assert all(size > limit for at, size in sieve.found.items() if at not in refused)


@given(st.integers(0, 2**62), st.integers(0, 2**31), st.none() | st.integers(0, 2**31))
def test_record(offset: int, size: int, limit: int | None) -> None:
    """What is written is read again."""
    skipped = SkippedRecord(PARTITION, offset, size, limit, IDS)
    assert SkippedRecord.decode(skipped.value) == skipped


@pytest.mark.parametrize("value", [None, b"", b"[]", b"{}", b"\xff", b'{"source_id": 1}'])
def test_wrong_record(value: bytes | None) -> None:
    """What is no such record is refused."""
    with pytest.raises(DecodeError, match="a record that was left out"):
        SkippedRecord.decode(value)


def test_other_topics() -> None:
    """What was left out of a topic that was created anew since, on either side, does not count."""
    skipped = SkippedRecords()
    assert skipped.sieve(PARTITION, IDS) is None
    skipped.refuse(PARTITION, 7, 1000, None)
    skipped.add(SkippedRecord(PARTITION, 7, 1000, None, IDS))
    assert skipped.offsets(PARTITION, IDS) == {7}
    assert skipped.offsets(PARTITION, TopicIds(UUID(int=1), UUID(int=3))) == frozenset()


def test_another_record_at_the_offset() -> None:
    """Where topics have no ids, a record that would have been taken is not the one that was left out."""
    sieve = _sieve(None, {0: 200, 1: 200}, {})
    small, large = Record(0, 1000, None, b"x" * 50, ()), Record(1, 1000, None, b"x" * 500, ())
    assert sieve.keeps(small, Codec.NONE)
    assert not sieve.keeps(large, Codec.NONE)
    assert sieve.found == {}


_OFFSETS = st.integers(0, 30)
_HISTORY = st.one_of(
    st.tuples(st.just("add"), _OFFSETS, st.sampled_from([IDS, RENEWED]), st.none() | st.integers(60, 200)),
    st.tuples(st.just("refuse"), _OFFSETS, st.integers(100, 300), st.none() | st.integers(60, 200)),
)


@given(st.lists(_HISTORY, max_size=40), st.none() | _OFFSETS, st.lists(st.integers(0, 200), min_size=1, max_size=8))
def test_same_as_by_looking_at_all(
    history: list[tuple[str, int, Any, int | None]], end: int | None, sizes: list[int]
) -> None:
    """What is taken out is what one would take out who looks at all records that were ever left out."""
    skipped, known, refused, limit = SkippedRecords(), dict[int, SkippedRecord](), dict[int, int](), None
    for what, offset, ids_or_size, then in history:
        if what == "add":
            one = known[offset] = SkippedRecord(PARTITION, offset, 1000, then, ids_or_size)
            skipped.add(one)
            refused.pop(offset, None)
        else:
            skipped.refuse(PARTITION, offset, ids_or_size, then)
            refused[offset], limit = ids_or_size, then
    if end is not None:
        skipped.stop_before(PARTITION, end, "it is too large")
    here = {offset: each.limit for offset, each in known.items() if each.ids == IDS}
    assert skipped.offsets(PARTITION, IDS) == here.keys()
    sieve = skipped.sieve(PARTITION, IDS)
    if sieve is None:
        assert not known and not refused and end is None
        return
    for base in range(0, 31, len(sizes)):
        records = [Record(base + n, 1000, None, b"x" * size, ()) for n, size in enumerate(sizes)]
        header = read_header(encode_batch(records, base_offset=base))
        within = {each.offset for each in records}
        touched = bool(within & (here.keys() | refused.keys()))
        too_large = limit is not None and header.size > limit
        assert sieve.passes(header) == (not touched and not too_large and (end is None or max(within) < end))
        for each in records:
            alone = len(encode_batch([each]))
            left_out = each.offset in here and (here[each.offset] is None or alone > (here[each.offset] or 0))
            over = each.offset in refused or (limit is not None and alone > limit)
            expected = not (left_out or over or (end is not None and each.offset >= end))
            assert sieve.keeps(each, Codec.NONE) == expected


def test_many_records_left_out() -> None:
    """A batch costs what lies within it: with 100,000 records left out elsewhere, 100,000 batches pass at once."""
    skipped = SkippedRecords()
    for offset in range(100_000):
        skipped.add(SkippedRecord(PARTITION, offset, 1000, None, IDS))
    header = read_header(encode_batch([Record(0, 1000, None, b"x", ())], base_offset=200_000))
    for _ in range(100_000):
        sieve = skipped.sieve(PARTITION, IDS)
        assert sieve is not None
        assert sieve.passes(header)
