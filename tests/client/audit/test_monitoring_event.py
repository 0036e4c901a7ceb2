"""Monitoring events."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.audit.monitoring_event import MonitoringEvent, as_fields, decode_event, encode_event, event_of
from logbus.client.serializers import SerializationError

WINDOW = 1000
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
COUNTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 2**40))
EVENTS = st.builds(
    MonitoringEvent,
    id=NAMES,
    application=NAMES,
    host=NAMES,
    role=NAMES,
    window_start=st.integers(0, 10**9).map(lambda n: n * WINDOW),
    window_ms=st.just(WINDOW),
    counts=COUNTS,
    failed=COUNTS,
    uncounted=st.integers(0, 5),
)


def published(number: int, **options: Any) -> MonitoringEvent:
    """An event of the shop's producers for the topic t."""
    fields = {"application": "shop", "host": "h", "role": "producer", "window_start": 0, "window_ms": WINDOW}
    options.setdefault("id", f"{options}{number}")
    return MonitoringEvent(**{**fields, "counts": {"t": number}, **options})


class EventTests(SynchronousTestCase):
    @given(EVENTS)
    def test_round_trip(self, event: MonitoringEvent) -> None:
        """An event equals itself after encoding and decoding, as JSON and as the fields that Avro writes."""
        self.assertEqual(decode_event(encode_event(event)), event)
        self.assertEqual(event_of(as_fields(event)), event)

    def test_invalid_events_are_refused_with_a_reason(self) -> None:
        """
        An audit topic may have anything in it.
        """
        right = as_fields(published(1))
        for wrong, reason in [
            ({"id": ""}, "text as 'id'"),
            ({"role": 3}, "text as 'role'"),
            ({"window_start": -1000}, "whole number as 'window_start'"),
            ({"window_start": 1}, "does not begin at 1"),
            ({"window_start": True}, "whole number"),
            ({"window_ms": 0}, "0 ms is none"),
            ({"counts": {"t": -1}}, "whole numbers by topic as 'counts'"),
            ({"counts": [1]}, "whole numbers by topic"),
            ({"failed": {"t": "1"}}, "as 'failed'"),
            ({"uncounted": 1.5}, "as 'uncounted'"),
            ({"window_ms": 2**63}, "whole number"),
        ]:
            error = self.assertRaises(SerializationError, event_of, {**right, **wrong})
            self.assertIn(reason, str(error))
        for data in (None, b"[]", b"{", b"3"):
            self.assertRaises(SerializationError, decode_event, data)
        self.assertEqual(event_of({**right, "later": 1}), published(1))

    @given(st.binary(max_size=30))
    def test_bytes_do_no_harm(self, data: bytes) -> None:
        """
        They are refused, and nothing else happens.
        """
        self.assertRaises(SerializationError, decode_event, data)
