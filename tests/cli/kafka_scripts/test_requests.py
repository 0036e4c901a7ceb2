"""What options of the commands ask for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.kafka_scripts import (
    acl_command,
    config_command,
    console_consumer,
    console_producer,
    consumer_group_command,
    get_offsets_command,
    topic_command,
    transactions_command,
)
from logbus.cli.kafka_scripts import (
    reassign_partitions_command as reassign,
)
from logbus.cli.kafka_scripts.client_settings import Settings
from logbus.cli.kafka_scripts.config_entities import Entity, configs_to_add, entities_of, java_double
from logbus.cli.kafka_scripts.consumer_group_reset import ResetRequest, datetime_ms
from logbus.cli.kafka_scripts.option_parser import OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.topic_names import topic_filter
from logbus.cli.record_sender import SendOptions
from logbus.errors import LogbusError
from logbus.model import TopicPartition
from logbus.records.compression import Codec
from logbus.security.acl.acls import AclOperation

B = ["--bootstrap-server", "b:9092"]


def refusal(parser: OptionParser, run: Callable[[ParsedOptions], object], *arguments: str) -> str:
    """Why arguments are refused."""
    try:
        run(parser.parse(arguments))
    except UsageError as e:
        return str(e)
    raise AssertionError(f"{arguments} are taken")


class TopicsTest(SynchronousTestCase):
    """``kafka-topics``."""

    def refusal(self, *arguments: str) -> str:
        return refusal(topic_command.PARSER, topic_command.run, *arguments)

    def test_refusals(self) -> None:
        """In Kafka's words."""
        self.assertEqual(
            self.refusal(*B, "--list", "--create"),
            "Command must include exactly one action: --list, --describe, --create, --alter or --delete",
        )
        self.assertEqual(self.refusal("--list"), "--bootstrap-server must be specified")
        self.assertEqual(self.refusal(*B, "--create"), 'Missing required argument "[topic]"')
        self.assertEqual(self.refusal(*B, "--alter", "--topic", "x"), 'Missing required argument "[partitions]"')
        self.assertEqual(
            self.refusal(*B, "--create", "--topic", "y", "--replica-assignment", "0,0", "--partitions", "2"),
            'Option "[replica-assignment]" can\'t be used with option "[partitions]"',
        )

    def test_new_topic(self) -> None:
        """Numbers, settings and replicas of the topic to create."""
        options = topic_command.PARSER.parse(
            ["--partitions", "3", "--replication-factor=2", "--config", "a=b=c", "--config=d="]
        )
        new = topic_command.new_topic("x", options)
        self.assertEqual((new.partitions, new.replication_factor, dict(new.configs)), (3, 2, {"a": "b=c", "d": ""}))
        self.assertEqual(topic_command.replica_assignment("0:1, 1:2"), [[0, 1], [1, 2]])
        for wrong in ("0:x", "0:0", "0:1,2"):
            with self.assertRaises(LogbusError):
                topic_command.replica_assignment(wrong)

    def test_topic_filter(self) -> None:
        """Regular expressions of whole names, separated by commas."""
        matches = topic_filter("a.*, 'b'")
        self.assertEqual([name for name in ("a", "abc", "b", "bc", "xa") if matches(name)], ["a", "abc", "b"])
        with self.assertRaisesRegex(UsageError, "is an invalid regex"):
            topic_filter("(")


class ConsolesTest(SynchronousTestCase):
    """``kafka-console-producer`` and ``kafka-console-consumer``."""

    def produce(self, *arguments: str, **properties: str) -> SendOptions:
        options = console_producer.PARSER.parse(["--topic", "x", *arguments])
        settings = Settings({name.replace("_", "."): value for name, value in properties.items()})
        return console_producer.produce_options(options, settings)

    def consume(self, *arguments: str, **properties: str) -> console_consumer.ReadRequest:
        settings = Settings({name.replace("_", "."): value for name, value in properties.items()})
        return console_consumer.read_request(console_consumer.PARSER.parse(arguments), settings)

    def test_producer(self) -> None:
        """Options win over properties; a codec without a name is gzip."""
        self.assertEqual(self.produce().acks, -1)
        self.assertEqual(self.produce("--request-required-acks", "0", acks="1").acks, 0)
        self.assertEqual(self.produce(acks="1").acks, 1)
        self.assertIs(self.produce("--compression-codec").codec, Codec.GZIP)
        self.assertIs(self.produce(compression_type="zstd").codec, Codec.ZSTD)
        self.assertEqual(self.produce("--sync", linger_ms="100").linger, 0)
        with self.assertRaisesRegex(UsageError, "Invalid value frob for configuration compression.type"):
            self.produce("--compression-codec", "frob")

    def test_consumer(self) -> None:
        """Where to begin and to end."""
        self.assertEqual(self.consume("--topic", "x").reset, "latest")
        self.assertEqual(self.consume("--topic", "x", "--from-beginning").reset, "earliest")
        found = self.consume("--topic", "x", "--partition", "1", "--offset", "5", "--timeout-ms", "1500")
        self.assertEqual((found.partition, found.offset, found.timeout, found.limit), (1, 5, 1.5, -1))
        self.assertEqual(self.consume("--include", "x.*", group_id="g").group, "g")

    def test_consumer_refusals(self) -> None:
        """In Kafka's words."""
        for arguments, message in (
            ([], "Exactly one of the following arguments is required: [topic], [include]"),
            (["--topic", "x", "--offset", "1"], "The partition is required when offset is specified."),
            (
                ["--topic", "x", "--partition", "0", "--offset", "-2"],
                "The provided offset value '-2' is incorrect. Valid values are 'earliest', 'latest', or a "
                "non-negative long.",
            ),
            (
                ["--topic", "x", "--partition", "0", "--group", "g"],
                "Options group and partition cannot be specified together.",
            ),
        ):
            with self.assertRaises(UsageError) as caught:
                self.consume(*arguments)
            self.assertEqual(str(caught.exception), message)


class GroupsTest(SynchronousTestCase):
    """``kafka-consumer-groups``."""

    def test_refusals(self) -> None:
        """In Kafka's words."""
        for arguments, message in (
            (
                [],
                "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, "
                "--delete-offsets, --validate-regex",
            ),
            (["--describe"], "Option [describe] takes one of these options: [group], [all-groups]"),
            (
                ["--reset-offsets", "--group", "g", "--to-latest", "--dry-run"],
                "One of the reset scopes should be defined: --all-topics, --topic.",
            ),
            (
                ["--reset-offsets", "--group", "g", "--all-topics", "--dry-run"],
                "Option '[reset-offsets]' requires one of the following scenarios: [[to-offset], [shift-by], "
                "[from-file], [to-datetime], [by-duration], [to-latest], [to-current], [to-earliest]]",
            ),
        ):
            self.assertEqual(
                refusal(consumer_group_command.PARSER, consumer_group_command.run, *B, *arguments), message
            )

    def test_reset(self) -> None:
        """Which partitions are reset, and to what."""
        options = consumer_group_command.PARSER.parse(
            ["--group", "g", "--topic", "x:0,1", "--topic", "y", "--shift-by", "-5", "--execute"]
        )
        request = ResetRequest.of(options)
        self.assertEqual(request.scopes, [("x", (0, 1)), ("y", None)])
        assert request.target is not None
        self.assertEqual((request.target.value, request.execute, request.one_group), (-5, True, True))

    def test_datetime(self) -> None:
        """A time without a zone is UTC."""
        self.assertEqual(datetime_ms("1970-01-01T00:00:01.500"), 1500)
        self.assertEqual(datetime_ms("1970-01-01T01:00:00.000+01:00"), 0)
        for wrong in ("1970-01-01", "soon"):
            with self.assertRaises(UsageError):
                datetime_ms(wrong)


class OthersTest(SynchronousTestCase):
    """The other commands."""

    def entities(self, *arguments: str) -> list[Entity]:
        return entities_of(config_command.PARSER.parse(arguments), names_required=True)

    def test_entities(self) -> None:
        """Names follow their types in order; each type has an option of its own, too."""
        both = [Entity("users", ""), Entity("clients", "c")]
        self.assertEqual(
            self.entities(
                "--entity-type", "users", "--entity-type", "clients", "--entity-default", "--entity-name", "c"
            ),
            both,
        )
        self.assertEqual(self.entities("--user-defaults", "--client", "c"), both)
        for arguments, message in (
            ([], "At least one entity type must be specified"),
            (["--entity-type", "frob"], "Invalid entity type frob, the entity type must be one of topics, "),
            (["--topic", "x", "--user", "y"], "may be specified together"),
            (["--broker", "x"], "must be a valid integer broker id, but it is: x"),
            (["--entity-type", "topics"], "--entity-name or --entity-default must be specified"),
        ):
            with self.assertRaises(UsageError) as caught:
                self.entities(*arguments)
            self.assertIn(message, str(caught.exception))

    def test_configs(self) -> None:
        """Commas in brackets do not separate settings."""
        self.assertEqual(configs_to_add(["a=[1,2],b=3", "c="]), {"a": "1,2", "b": "3", "c": ""})
        with self.assertRaisesRegex(UsageError, "Invalid entity config"):
            configs_to_add(["nope"])

    def test_password(self) -> None:
        """A password with or without the number of iterations; it is in no text."""
        found = config_command.password_of("alice", "SCRAM-SHA-512", "iterations=8192,password=a-secret")
        self.assertEqual((found.password, found.iterations), ("a-secret", 8192))
        self.assertNotIn("a-secret", repr(found))
        with self.assertRaises(UsageError):
            config_command.password_of("alice", "SCRAM-SHA-512", "a-secret")

    @given(st.floats(0, 1e12).map(lambda number: round(number, 3)))
    def test_java_double(self, number: float) -> None:
        """Java's form of a number is that number."""
        self.assertEqual(float(java_double(number)), number)

    def test_acls(self) -> None:
        """The operations of producers and consumers, and of denials without one."""
        parse = acl_command.PARSER.parse
        found = acl_command.entries_of(
            parse(["--allow-principal", "User:c", "--consumer", "--topic", "x", "--group", "g"]), "add"
        )
        self.assertEqual(
            {pattern.name: [entry.operation for entry in entries] for pattern, entries in found.items()},
            {"x": [AclOperation.READ, AclOperation.DESCRIBE], "g": [AclOperation.READ]},
        )
        found = acl_command.entries_of(parse(["--deny-principal", "User:c", "--topic", "x"]), "add")
        self.assertEqual([entry.operation for entries in found.values() for entry in entries], [AclOperation.ALL])
        with self.assertRaisesRegex(UsageError, r"ResourceType TOPIC only supports operations \[READ, "):
            acl_command.entries_of(parse(["--allow-principal", "User:c", "--topic", "x", "--operation", "Frob"]), "add")

    def test_plans(self) -> None:
        """A plan as Kafka's command prints it is read again, with its directories; others are refused."""
        path = f"{self.enterContext(TemporaryDirectory())}/plan"

        def plan(text: str) -> object:
            Path(path).write_text(text)
            return reassign.plan_of(path)

        x = TopicPartition("x", 0)
        text = reassign.plan_json({x: (0, 1)}, {(0, x): "/data"})
        self.assertEqual(plan(text), ({x: (0, 1)}, {(0, x): "/data"}))
        for wrong, message in (
            ("{", "is not JSON"),
            ('{"partitions": 3}', path),
            (text.replace('"any"', '"any","any"'), '"log_dirs" is not a list of a directory for each replica'),
            (text.replace("[0,1]", "[0,0]"), "names a broker twice"),
        ):
            with self.assertRaises(UsageError) as caught:
                plan(wrong)
            self.assertIn(message, str(caught.exception))

    def test_transactions(self) -> None:
        """Each action has options of its own."""
        for arguments, message in (
            ([*B], "too few arguments"),
            ([*B, "frob"], "invalid choice: 'frob' (choose from list, describe, "),
            ([*B, "list", "--topic", "x"], "unrecognized arguments: '--topic'; list has --duration-filter, "),
            ([*B, "describe"], "argument --transactional-id is required"),
            ([*B, "abort", "--topic", "x", "--partition", "0"], "either with --start-offset or --producer-id"),
            ([*B, "find-hanging"], "must be limited with --broker-id or --topic"),
            (["list"], "argument --bootstrap-server is required"),
        ):
            said = refusal(transactions_command.PARSER, transactions_command.run, *arguments)
            self.assertIn(message, said)

    def test_generated_plans(self) -> None:
        """Topics and brokers of the plan to make."""
        path = f"{self.enterContext(TemporaryDirectory())}/plan"
        Path(path).write_text('{"version": 1, "topics": [{"topic": "x"}, {"topic": "y"}]}')
        self.assertEqual(reassign.topics_to_move(path), ["x", "y"])
        self.assertEqual(reassign.broker_list("0, 2"), [0, 2])
        for wrong in ("0,0", "a", ""):
            with self.assertRaises(UsageError):
                reassign.broker_list(wrong)
        Path(path).write_text('{"topics": [3]}')
        with self.assertRaises(UsageError):
            reassign.topics_to_move(path)

    def test_partitions(self) -> None:
        """Partitions by topics, numbers and ranges, whose ends are exclusive."""
        every = [TopicPartition(topic, number) for topic in ("x", "y") for number in range(3)]

        def chosen(*arguments: str) -> list[str]:
            options = get_offsets_command.PARSER.parse(arguments)
            return [str(each) for each in every if get_offsets_command.wanted_partitions(options)(each)]

        self.assertEqual(chosen("--topic", "x", "--partitions", "0,2"), ["x-0", "x-2"])
        self.assertEqual(chosen("--topic-partitions", "x:1,y:0-2"), ["x-1", "y-0", "y-1"])
        self.assertEqual(chosen("--topic-partitions", "x:1-,:-1"), ["x-0", "x-1", "x-2", "y-0"])
        self.assertEqual(get_offsets_command.time_of("earliest"), -2)
        self.assertEqual(get_offsets_command.time_of("-1"), -1)
        with self.assertRaisesRegex(UsageError, "Malformed time argument frob"):
            get_offsets_command.time_of("frob")
