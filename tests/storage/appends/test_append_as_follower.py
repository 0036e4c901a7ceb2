"""What a follower appends of its leader's answer."""

from __future__ import annotations

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.topic_config import TopicConfig
from logbus.errors import ApiError
from logbus.storage.appends import append_as_follower as module
from logbus.storage.appends.append_as_follower import append_as_follower
from logbus.storage.log import Log
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from tests.storage.builders import NOW_MS, a_log, batch

ANSWERS = st.tuples(
    st.integers(0, 6),  # base offset
    st.integers(0, 4),  # leader epoch
    st.integers(1, 3),  # records
    st.sampled_from(["whole", "whole", "whole", "damaged", "short", "longer", "control"]),
    st.booleans(),  # gaps allowed
    st.booleans(),  # an idempotent producer
)


def _answer(base: int, epoch: int, records: int, kind: str, by_producer: bool) -> bytes:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": base} if by_producer else {}
    data = bytearray(
        batch(
            *[b"x" * 20] * records,
            base_offset=base,
            leader_epoch=epoch,
            control=kind == "control",
            timestamp=NOW_MS + base,
            **producer,  # type: ignore[arg-type]
        )
    )
    if kind == "damaged":
        data[-1] ^= 1
    if kind == "longer":
        data += b"\0" * 7
    return bytes(data[:-1] if kind == "short" else data)


def _outcome(log: Log, data: bytes, gaps: bool) -> object:
    try:
        return append_as_follower(log, data, 3, gaps)
    except ApiError as error:
        return error.code, error.message


class AppendAsFollowerTests(SynchronousTestCase):
    @given(st.lists(ANSWERS, max_size=6), st.sampled_from([200, 1 << 30]))
    def test_only_batch(self, answers: list[tuple[int, int, int, str, bool, bool]], segment_bytes: int) -> None:
        """
        An answer of one batch has the same outcome as by way of the general case: the log, its state, the error.
        """
        config = TopicConfig(segment_bytes=segment_bytes)
        quick, plain = (a_log(MemoryDisk(), config=config) for _ in range(2))
        for ahead, epoch, records, kind, gaps, by_producer in answers:
            # The offset is that of the log's end as often as not.
            base = quick.log_end_offset + max(-1, ahead - 4) if quick.log_end_offset else max(0, ahead - 4)
            data = _answer(base, epoch, records, kind, by_producer)
            found = _outcome(quick, data, gaps)
            with mock.patch.object(module, "_append_only_batch", lambda *_: False):
                self.assertEqual(found, _outcome(plain, data, gaps))
            self.assertEqual(_state(quick), _state(plain))


def _state(log: Log) -> object:
    data = log.read(0, 1 << 20).data if log.log_end_offset else None
    return (
        log.log_end_offset,
        data.read() if data is not None else b"",
        list(log.epochs),
        list(log.producers),
        [(segment.base_offset, segment.size) for segment in log.segments],
    )
