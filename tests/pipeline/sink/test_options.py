"""Tests the sink's options, without Spark."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.errors import OptionError
from logbus.pipeline.sink import options
from logbus.pipeline.sink.options import SinkOptions
from logbus.records.compression import Codec

NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "orders"}


def read(*, streaming: bool = True, **given: str) -> SinkOptions:
    """Dots are spelled as two underscores."""
    return options.read_sink_options(
        NEEDED | {name.replace("__", "."): value for name, value in given.items()}, streaming=streaming
    )


class OptionTests(SynchronousTestCase):
    def refused(self, pattern: str, *, streaming: bool = True, **given: str) -> None:
        error = self.assertRaises(OptionError, read, streaming=streaming, **given)
        self.assertRegex(str(error), pattern)

    def test_defaults(self) -> None:
        """At least once, with all acknowledgements, and known again."""
        found = read()
        self.assertFalse(found.exactly_once)
        self.assertTrue(found.idempotent)
        self.assertEqual(found.delivery.acks, -1)
        self.assertIs(found.packing.codec, Codec.NONE)

    def test_options(self) -> None:
        """Kafka's own names, in any case."""
        found = read(
            KAFKA__COMPRESSION__TYPE="zstd",
            kafka__compression__zstd__level="7",
            kafka__batch__size="1000",
            kafka__linger__ms="250",
            kafka__max__request__size="5000",
            kafka__delivery__timeout__ms="9000",
            kafka__retries="3",
            kafka__buffer__memory="77777",
            kafka__acks="1",
            kafka__max__in__flight__requests__per__connection="2",
            kafka__transaction__timeout__ms="60000",
        )
        self.assertEqual(found.packing, options.BatchingSettings(Codec.ZSTD, 7, 1000, 5000, 0.25))
        self.assertEqual(found.delivery, options.DeliverySettings(1, 9.0, 3, 5000, 77777, 2))
        self.assertFalse(found.idempotent)
        self.assertEqual(found.transaction_timeout, 60.0)

    def test_a_batch_is_no_larger_than_a_request(self) -> None:
        """Where the one is said to be smaller than the other."""
        self.assertEqual(read(kafka__max__request__size="100").packing.batch_bytes, 100)

    def test_pickled_options(self) -> None:
        """Spark sends it to workers."""
        found = read(deliveryGuarantee="exactly-once")
        self.assertEqual(pickle.loads(pickle.dumps(found)), found)

    def test_wrong_values_are_named(self) -> None:
        """Each with what would be right."""
        self.refused("'topic': 'a b' cannot be used; it takes the name of a topic", topic="a b")
        self.refused("deliveryGuarantee.*at-least-once, exactly-once", deliveryGuarantee="at-most-once")
        self.refused("kafka.acks.*all, -1, 1", kafka__acks="0")
        self.refused("kafka.compression.type.*snappy", kafka__compression__type="brotli")
        self.refused("kafka.batch.size.*whole number", kafka__batch__size="16k")
        self.refused("transactionalIdPrefix.*letters", transactionalIdPrefix="a b")

    def test_refused_options(self) -> None:
        """As Spark's Kafka sink does, and why; what asks for what happens anyway is accepted."""
        for name, each in options.REFUSED.items():
            self.refused("cannot be used: ", **{name.replace(".", "__"): "x"})
            if each.unless is not None:
                read(**{name.replace(".", "__"): each.unless})
        self.refused("'kafka.fetch.max.bytes' is not known", kafka__fetch__max__bytes="1")
        self.refused("'includeHeaders' cannot be used: a column headers is written", includeHeaders="false")
        self.refused("give kafka.retry.backoff.ms", kafka__reconnect__backoff__ms="5")
        read(checkpointLocation="/tmp/x", includeHeaders="true")

    def test_connection_options(self) -> None:
        """Of the options of a source, those about connections are the sink's as well."""
        given = {"kafka.Client.Id": "a", "kafka.isolation.level": "read_committed", "subscribe": "t"}
        self.assertEqual(options.connection_options(given), {"kafka.Client.Id": "a"})

    def test_mistakes_in_names(self) -> None:
        """What may have been meant is said."""
        self.refused("'topics' is not known; did you mean topic", topics="a")
        self.refused("did you mean deliveryGuarantee", deliveryGarantee="exactly-once")
        self.refused("did you mean kafka.linger.ms", kafka__linger="5")

    def test_exactly_once_needs_all_acknowledgements(self) -> None:
        """And brokers that know batches again."""
        self.refused("'kafka.acks': deliveryGuarantee", deliveryGuarantee="exactly-once", kafka__acks="1")
        self.refused("'kafka.enable.idempotence'", deliveryGuarantee="exactly-once", kafka__enable__idempotence="false")
        self.refused("'kafka.acks': kafka.enable.idempotence", kafka__enable__idempotence="true", kafka__acks="1")

    def test_numbered_batches(self) -> None:
        """Only where there is a transaction, and no query that numbers them itself."""
        found = read(streaming=False, deliveryGuarantee="exactly-once", txnAppId="daily", txnVersion="7")
        self.assertEqual((found.app_id, found.version), ("daily", 7))
        self.refused("go together", streaming=False, deliveryGuarantee="exactly-once", txnAppId="daily")
        self.refused("needs the option 'deliveryGuarantee'", streaming=False, txnAppId="daily", txnVersion="7")
        self.refused("is for batches", deliveryGuarantee="exactly-once", txnAppId="daily", txnVersion="7")

    def test_security(self) -> None:
        """What the connection is told is checked with the rest."""
        self.refused("kafka.sasl.mechanism", kafka__security__protocol="SASL_SSL")

    @given(st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=4))
    def test_arbitrary_options(self, given: dict[str, str]) -> None:
        """Whatever is said is taken or refused in words."""
        try:
            options.read_sink_options(NEEDED | given, streaming=False)
        except OptionError as e:
            self.assertTrue(str(e))
