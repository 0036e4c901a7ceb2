"""Interceptors: what they may change, and that their faults never prevent delivery."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.client.interceptors import (
    ConsumerInterceptor,
    ConsumerInterceptors,
    ProducerInterceptor,
    ProducerInterceptors,
    ProducerRecord,
    RecordDropped,
)
from logbus.client.producer.producer import RecordMetadata

RECORD = ProducerRecord("t", b"v")
METADATA = RecordMetadata("t", 0, 7, 1000)


class Adds(ProducerInterceptor, ConsumerInterceptor):
    """Adds its name to records, and remembers its calls."""

    def __init__(self, name: bytes) -> None:
        self.letter = name
        self.told: list[Any] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        return record._replace(value=record.value + self.letter)

    def on_queued(self, record: ProducerRecord) -> None:
        self.told.append(record.value)

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        self.told.append((metadata.offset, error))

    def on_consume(self, records: Any) -> None:
        self.told.append([each.value for each in records])

    def on_commit(self, offsets: Any) -> None:
        self.told.append(dict(offsets))


class Breaks(Adds):
    """Fails at everything."""

    def _fail(self, *arguments: Any) -> Any:
        raise ZeroDivisionError("the interceptor's own fault")

    on_send = on_queued = on_acknowledgement = on_consume = on_commit = _fail


class Drops(ProducerInterceptor):
    """Lets nothing pass."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        return None


class InterceptorTests(SynchronousTestCase):
    def test_records_pass_them_in_order(self) -> None:
        """
        Each is given what the one before made of the record.
        """
        chain = ProducerInterceptors((Adds(b"a"), Adds(b"b")))
        self.assertEqual(chain.on_send(RECORD).value, b"vab")

    def test_failing_interceptor(self) -> None:
        """
        The record goes on unchanged, other interceptors are called, and the failure is logged with the interceptor's
        name.
        """
        after = Adds(b"b")
        chain = ProducerInterceptors((Adds(b"a"), Breaks(b"x"), after))
        record = chain.on_send(RECORD)
        self.assertEqual(record.value, b"vab")
        chain.on_queued(record)
        chain.on_acknowledgement(METADATA, None)
        self.assertEqual(after.told, [b"vab", (7, None)])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 3)

    def test_interceptor_without_a_result(self) -> None:
        """If an interceptor returns something other than a record, that is not sent."""
        breaks = Adds(b"x")
        breaks.on_send = lambda record: "nonsense"  # type: ignore[method-assign, assignment, return-value]
        self.assertIs(ProducerInterceptors((breaks,)).on_send(RECORD), RECORD)

    def test_dropped_record(self) -> None:
        """Later interceptors are not called; the error names the interceptor and the topic."""
        chain = ProducerInterceptors((Drops(), Breaks(b"x")))
        error = self.assertRaises(RecordDropped, chain.on_send, RECORD)
        self.assertEqual(str(error), "Drops dropped a record for topic 't'")

    def test_consumers_have_theirs(self) -> None:
        """Each gets delivered records and committed offsets, whatever the others do."""
        after = Adds(b"a")
        chain = ConsumerInterceptors((Breaks(b"x"), after))
        chain.on_consume([ConsumerRecord("t", 0, 1, 2, None, b"v", ())])
        chain.on_commit({})
        self.assertEqual(after.told, [[b"v"], {}])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)

    def test_empty_chain(self) -> None:
        """
        A chain without interceptors is false: clients skip it.
        """
        self.assertFalse(ProducerInterceptors())
        self.assertFalse(ConsumerInterceptors())
        self.assertTrue(ProducerInterceptors((Drops(),)))
