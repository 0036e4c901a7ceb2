"""Sums of monitoring events, and their comparison."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.audit.audit_comparison import AuditComparison, AuditTotals, AuditVerdict, compare
from logbus.client.audit.audit_interceptor import WindowCounts
from logbus.client.audit.monitoring_event import MonitoringEvent, encode_event, event_of

WINDOW = 1000


def published(number: int, **options: Any) -> MonitoringEvent:
    """An event of the shop's producers for the topic t."""
    fields = {"application": "shop", "host": "h", "role": "producer", "window_start": 0, "window_ms": WINDOW}
    options.setdefault("id", f"{options}{number}")
    return MonitoringEvent(**{**fields, "counts": {"t": number}, **options})


def consumed(number: int, **options: Any) -> MonitoringEvent:
    """An event of a consumer for the topic t."""
    return published(number, **{"application": "counter", "role": "consumer", **options})


def verdicts(*events: MonitoringEvent, **options: Any) -> list[AuditVerdict]:
    """The verdicts for events."""
    return [each.verdict for each in compare(events, **options)]


class WindowCountTests(SynchronousTestCase):
    @given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-1, 5000), st.booleans())), st.integers(1, 6))
    def test_every_record_is_counted(self, records: list[tuple[str, int, bool]], limit: int) -> None:
        """Every record is counted, or counted as not counted, in no more windows than the limit."""
        counts = WindowCounts(WINDOW, limit)
        for topic, timestamp, failed in records:
            counts.count(topic, timestamp, failed=failed)
        events = [event_of({"id": "i", **each}) for each in counts.take(application="a", host="h", role="r")]
        total = sum(sum(each.counts.values()) + sum(each.failed.values()) + each.uncounted for each in events)
        self.assertEqual(total, len(records))
        self.assertLessEqual(sum(len(each.counts) + len(each.failed) for each in events), limit)
        self.assertFalse(counts)
        self.assertEqual(counts.take(), [])

    def test_many_topics_are_several_events(self) -> None:
        """
        An event never is larger than a broker takes.
        """
        counts = WindowCounts(WINDOW, 10_000)
        for number in range(2500):
            counts.count("x" * 240 + str(number), 0)
        events = [MonitoringEvent(id="i", **each) for each in counts.take(application="a", host="h", role="r")]
        self.assertEqual([len(each.counts) for each in events], [1000, 1000, 500])
        self.assertTrue(all(len(encode_event(each)) < 300_000 for each in events))


class CompareTests(SynchronousTestCase):
    def test_equal_counts_are_complete(self) -> None:
        """
        Instances are added up, on both sides.
        """
        events = [published(2), published(3, host="g"), consumed(4), consumed(1, host="g")]
        expected = AuditComparison("t", 0, WINDOW, "counter", "consumer", 5, 0, 5, AuditVerdict.COMPLETE)
        self.assertEqual(compare(events), [expected])

    def test_each_application_is_held_to_all(self) -> None:
        """
        Two that consume the same topic do so independently.
        """
        found = compare([published(5), consumed(5), consumed(3, application="loader"), consumed(6, application="x")])
        self.assertEqual(
            [(each.application, each.verdict, each.missing) for each in found],
            [
                ("counter", AuditVerdict.COMPLETE, 0),
                ("loader", AuditVerdict.MISSING, 2),
                ("x", AuditVerdict.DUPLICATED, -1),
            ],
        )

    def test_an_event_counts_once(self) -> None:
        """A duplicate has the same id."""
        ledger = AuditTotals()
        self.assertTrue(ledger.add(published(5, id="1")))
        self.assertFalse(ledger.add(published(5, id="1")))
        ledger.add(consumed(5))
        self.assertEqual([each.verdict for each in ledger.compare()], [AuditVerdict.COMPLETE])
        self.assertEqual(ledger.doubled, 1)

    def test_unconsumed_window_is_missing(self) -> None:
        """An application that reports on a topic is compared in all of its windows."""
        self.assertEqual(
            verdicts(published(5), published(5, window_start=WINDOW), consumed(5)),
            [AuditVerdict.COMPLETE, AuditVerdict.MISSING],
        )

    def test_expected_application_without_reports(self) -> None:
        """
        Else an application that lost everything would not be noticed; one that reports is not expected twice.
        """
        self.assertEqual(verdicts(published(5)), [])
        self.assertEqual(verdicts(published(5), expected=[("counter", "t")]), [AuditVerdict.MISSING])
        self.assertEqual(verdicts(published(5), consumed(5), expected=[("counter", "t")]), [AuditVerdict.COMPLETE])

    def test_recent_window_is_open(self) -> None:
        """
        Its records may still be under way.
        """
        for settled, verdict in [(WINDOW - 1, AuditVerdict.OPEN), (WINDOW, AuditVerdict.MISSING)]:
            self.assertEqual(verdicts(published(5), consumed(4), settled_ms=settled), [verdict])

    def test_unknown_results(self) -> None:
        """The result is unknown if records were not counted, or no producer reports."""
        self.assertEqual(verdicts(published(5), consumed(4, uncounted=1)), [AuditVerdict.UNKNOWN])
        self.assertEqual(verdicts(published(4, uncounted=1), consumed(5)), [AuditVerdict.UNKNOWN])
        self.assertEqual(verdicts(consumed(5)), [AuditVerdict.UNKNOWN])
        other = consumed(0, uncounted=1, application="other", counts={})
        self.assertEqual(verdicts(published(5), consumed(4), other), [AuditVerdict.MISSING])

    def test_failed_records_are_not_missing(self) -> None:
        """
        A record that the producer knows it lost was never published.
        """
        (found,) = compare([published(5, failed={"t": 2}), consumed(5)])
        self.assertEqual((found.published, found.failed, found.verdict), (5, 2, AuditVerdict.COMPLETE))

    def test_windows_of_different_lengths(self) -> None:
        """
        Short ones are added up to long ones, if they fit.
        """
        halves = [consumed(2, window_ms=500, window_start=start) for start in (1000, 1500)]
        (found,) = compare([published(4, window_start=1000), *halves])
        self.assertEqual((found.verdict, found.window_start, found.window_ms), (AuditVerdict.COMPLETE, 1000, 1000))
        odd = consumed(2, window_ms=300)
        self.assertIn("do not fit", str(self.assertRaises(ValueError, compare, [published(4), odd])))

    @given(
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3000)), min_size=1),
        st.data(),
    )
    def test_any_division_of_the_work_adds_up(self, records: list[tuple[str, int]], data: Any) -> None:
        """
        However records are spread over instances and events, and events repeated and mixed: all are there, and if a
        consumer leaves one out exactly its window is short by one.
        """
        left_out = data.draw(st.sampled_from(records))
        events: list[MonitoringEvent] = []
        for role, kept in [("producer", records), ("consumer", list(records))]:
            if role == "consumer":
                kept.remove(left_out)
            instances = [WindowCounts(WINDOW, 100) for _ in range(3)]
            for topic, timestamp in kept:
                instances[data.draw(st.integers(0, 2))].count(topic, timestamp)
            for number, each in enumerate(instances):
                for index, fields in enumerate(each.take(application=role, host=str(number), role=role)):
                    events.append(MonitoringEvent(id=f"{role}{number}.{index}", **fields))
        ledger = AuditTotals()
        for each in data.draw(st.permutations([*events, *events])):
            ledger.add(each)
        topic, timestamp = left_out
        found = {
            (each.topic, each.window_start): each.missing for each in ledger.compare(expected=[("consumer", topic)])
        }
        self.assertEqual(found.pop((topic, timestamp - timestamp % WINDOW)), 1)
        self.assertEqual(set(found.values()) - {0}, set())

    def test_another_measure(self) -> None:
        """
        Any stage may be what the others are held against.
        """
        stages = [evolve(published(5), role="mirror", application="m"), consumed(4)]
        self.assertEqual(verdicts(*stages, reference="mirror"), [AuditVerdict.MISSING])
