"""Records are printed as Kafka's DefaultMessageFormatter prints them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.kafka_scripts.message_formatter import MessageFormatter, NotDeserializable
from logbus.cli.kafka_scripts.option_parser import UsageError
from logbus.cli.terminal_escapes import for_terminal
from logbus.client.consumer.consumer_record import ConsumerRecord

RECORD: ConsumerRecord = ConsumerRecord("t", 2, 7, 1795664845530, b"k", b"v\x1b[2J", (("h", b"1"), ("i", None)))
BARE: ConsumerRecord = ConsumerRecord("t", 0, 0, -1, None, None, ())
EVERYTHING = {f"print.{name}": "true" for name in ("timestamp", "partition", "offset", "headers", "key")}


class MessageFormatterTest(SynchronousTestCase):
    """Lines for properties."""

    def test_value(self) -> None:
        """By default it is the value and a newline; null is a word."""
        self.assertEqual(MessageFormatter.of({}).line(RECORD), b"v\x1b[2J\n")
        self.assertEqual(MessageFormatter.of({}).line(BARE), b"null\n")

    def test_everything(self) -> None:
        """All there is, in Kafka's order."""
        formatter = MessageFormatter.of(EVERYTHING)
        self.assertEqual(
            formatter.line(RECORD),
            b"CreateTime:1795664845530\tPartition:2\tOffset:7\th:1,i:null\tk\tv\x1b[2J\n",
        )
        self.assertEqual(formatter.line(BARE), b"NO_TIMESTAMP\tPartition:0\tOffset:0\tNO_HEADERS\tnull\tnull\n")
        self.assertTrue(formatter.line(RECORD, "LogAppendTime").startswith(b"LogAppendTime:1795664845530\t"))

    def test_separators(self) -> None:
        """Separators and the word for null are properties."""
        given = {"key.separator": "-", "line.separator": "$", "headers.separator": ";", "null.literal": "NIL"}
        formatter = MessageFormatter.of({**EVERYTHING, **given, "print.timestamp": "false"})
        self.assertEqual(formatter.line(RECORD), b"Partition:2-Offset:7-h:1;i:NIL-k-v\x1b[2J$")

    def test_terminal(self) -> None:
        """On a terminal, what producers set is escaped; separators of the user's are not."""
        formatter = MessageFormatter.of({"print.key": "true", "key.separator": "\x1b"}, for_terminal)
        self.assertEqual(formatter.line(RECORD), b"k\x1bv\\x1b[2J\n")

    def test_deserializers(self) -> None:
        """Numbers of Kafka's serializers are shown as such; other bytes are refused."""
        name = "org.apache.kafka.common.serialization.LongDeserializer"
        formatter = MessageFormatter.of({"value.deserializer": name})
        self.assertEqual(formatter.line(RECORD._replace(value=(7).to_bytes(8, "big"))), b"7\n")
        with self.assertRaisesRegex(NotDeserializable, "Size of data received by LongDeserializer is not 8"):
            formatter.line(RECORD)

    def test_unknown(self) -> None:
        """Unknown properties and deserializers are refused with what there is."""
        with self.assertRaisesRegex(UsageError, r"print.epoch is not a property .* there are print.timestamp, "):
            MessageFormatter.of({"print.epoch": "true"})
        with self.assertRaisesRegex(UsageError, r"Foo is not served; there are .*StringDeserializer"):
            MessageFormatter.of({"key.deserializer": "Foo"})
