"""Tests the source's options and their errors."""

from __future__ import annotations

import pickle

from twisted.trial.unittest import SynchronousTestCase

from logbus.model import TopicPartition
from logbus.pipeline.blocking.connection_settings import CONNECTION_OPTIONS, PREFIX
from logbus.pipeline.errors import OptionError
from logbus.pipeline.source.options import (
    CONSUMER_OPTIONS,
    REFUSED,
    SOURCE_OPTIONS,
    Assign,
    SourceOptions,
    Subscribe,
    SubscribePattern,
    read_source_options,
)
from logbus.pipeline.source.positions import EARLIEST, LATEST, AtOffsets, AtTime, AtTimes, EarliestOrLatest

MINIMAL = {"kafka.bootstrap.servers": "a:1,[::1]:2", "subscribe": "t"}


def source(streaming: bool = False, without: str = "", **options: str) -> SourceOptions:
    """The smallest options, and more; a double underscore is a dot."""
    more = {name.replace("__", "."): value for name, value in options.items()}
    known = {name: value for name, value in MINIMAL.items() if name != without}
    return read_source_options({**known, **more}, streaming=streaming)


class OptionTests(SynchronousTestCase):
    """What is taken and what is not."""

    def refused(self, *words: str, streaming: bool = False, without: str = "", **options: str) -> None:
        """The error says all of these words."""
        with self.assertRaises(OptionError) as caught:
            source(streaming, without, **options)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_defaults_are_those_of_sparks_kafka_source(self) -> None:
        """A batch reads everything, a stream what is new; loss is an error; headers are left out."""
        batch, stream = source(), source(streaming=True)
        self.assertEqual((batch.starting, batch.ending), (EarliestOrLatest(EARLIEST), EarliestOrLatest(LATEST)))
        self.assertEqual(stream.starting, EarliestOrLatest(LATEST))
        self.assertTrue(batch.fail_on_data_loss)
        self.assertFalse(batch.include_headers or batch.fetching.committed or batch.latest_without_match)
        self.assertEqual(batch.max_trigger_delay, 900)
        self.assertIsNone(batch.min_partitions)
        self.assertEqual(batch.settings.bootstrap, (("a", 1), ("::1", 2)))

    def test_options_pickle(self) -> None:
        """They go to the workers."""
        options = source(assign='{"t": [1]}', without="subscribe", startingTimestamp="5")
        self.assertEqual(pickle.loads(pickle.dumps(options)), options)

    def test_names_have_no_case(self) -> None:
        """As everywhere in Spark."""
        self.assertEqual(source(FAILONDATALOSS="False", Kafka__Client__ID="x").settings.client_id, "x")
        self.assertFalse(source(FAILONDATALOSS="False").fail_on_data_loss)

    def test_selections(self) -> None:
        """One of three, and no more."""
        self.assertEqual(source(subscribe=" a, b ,,a").selection, Subscribe(("a", "b")))
        pattern = source(without="subscribe", subscribePattern="ord.*|x").selection
        self.assertEqual(pattern, SubscribePattern("ord.*|x"))
        assigned = source(without="subscribe", assign='{"b": [1, 0, 1], "a": [2]}').selection
        self.assertEqual(assigned, Assign((TopicPartition("a", 2), TopicPartition("b", 0), TopicPartition("b", 1))))
        self.refused("exactly one", "there is none", without="subscribe")
        self.refused("exactly one", "subscribe and assign", assign='{"a": [2]}')

    def test_wrong_values(self) -> None:
        """Each is named, with what it takes."""
        for name, value, takes in (
            ("subscribe", " , ", "topics with commas"),
            ("subscribe", "a b", "topics with commas"),
            ("subscribePattern", "(", "a regular expression"),
            ("assign", "t", '{"orders": [0, 1]}'),
            ("assign", '{"t": 1}', '{"orders": [0, 1]}'),
            ("assign", '{"t": []}', '{"orders": [0, 1]}'),
            ("startingOffsets", "soonest", "earliest, latest, or JSON"),
            ("startingOffsets", '{"t": {"0": -3}}', "-2 is earliest"),
            ("startingOffsets", '{"t": {"-1": 3}}', "earliest, latest, or JSON"),
            ("startingOffsets", '{"t": {"0": 1.5}}', "earliest, latest, or JSON"),
            ("startingOffsets", '{"t": {"0": true}}', "earliest, latest, or JSON"),
            ("startingTimestamp", "yesterday", "milliseconds since 1970"),
            ("startingOffsetsByTimestamp", '{"t": {"0": -1}}', "milliseconds since 1970 for each partition"),
            ("startingOffsetsByTimestampStrategy", "earliest", "one of error, latest"),
            ("failOnDataLoss", "no", "true or false"),
            ("includeHeaders", "1", "true or false"),
            ("minPartitions", "0", "a whole number from 1"),
            ("maxRecordsPerPartition", "-1", "a whole number from 1"),
            ("maxOffsetsPerTrigger", "many", "a whole number from 1"),
            ("minOffsetsPerTrigger", "0", "a whole number from 1"),
            ("maxTriggerDelay", "soon", "a time such as"),
            ("kafka__isolation__level", "serializable", "one of read_uncommitted, read_committed"),
            ("kafka__bootstrap__servers", "a:b", "HOST:PORT"),
            ("kafka__security__protocol", "TLS", "one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
            ("kafka__sasl__mechanism", "GSSAPI", "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
            ("kafka__ssl__truststore__type", "JKS", "one of PEM"),
            ("kafka__request__timeout__ms", "0", "milliseconds, a whole number from 1"),
            ("kafka__fetch__max__bytes", "0", "a whole number from 1"),
        ):
            with self.subTest(name=name, value=value):
                self.refused(f"option '{name.replace('__', '.')}'", repr(value), takes, **{name: value})

    def test_unknown_options(self) -> None:
        """A slip of the pen is not passed over in silence."""
        self.refused("option 'startingOffset' is not known", "startingOffsets", startingOffset="earliest")
        self.refused("did you mean kafka.isolation.level", kafka__isolation_level="read_committed")
        self.refused("option 'zzz' is not known; there are subscribe, subscribePattern", zzz="1")
        self.refused("option 'kafka.zzz' is not known; there are kafka.bootstrap.servers, kafka.", kafka__zzz="1")

    def test_names_in_errors(self) -> None:
        """An error has the name as it is documented."""
        self.refused("option 'failOnDataLoss': 'no' cannot be used", failondataloss="no")
        self.refused("option 'kafka.isolation.level': 'x' cannot be used", **{"KAFKA.isolation.LEVEL": "x"})

    def test_a_path(self) -> None:
        """``load("orders")`` is a slip, and what is meant has another name."""
        self.refused("load() takes no path here; the option 'subscribe' says", path="orders")

    def test_refused_options(self) -> None:
        """What Spark's Kafka source refuses, and what we cannot do, or would do nothing; in any case."""
        for name, each in REFUSED.items():
            self.refused(f"option {name!r} cannot be used", each.why, **{name.replace(".", "__"): "x"})
        self.refused("say where to begin with startingOffsets", KAFKA__AUTO__OFFSET__RESET="latest")
        self.refused("'groupIdPrefix' cannot be used: offsets are in Spark's checkpoint, and no", groupidprefix="g")
        self.refused("give kafka.request.timeout.ms", kafkaConsumer__pollTimeoutMs="5")

    def test_what_happens_anyway(self) -> None:
        """A value that asks for just that is accepted, in any case; another one is told which that is."""
        given = {name: f" {each.unless} ".upper() for name, each in REFUSED.items() if each.unless is not None}
        self.assertIn("kafka.check.crcs", given)
        self.assertEqual(source(**{name.replace(".", "__"): value for name, value in given.items()}), source())
        self.refused("checksums are always checked; it takes true", kafka__check__crcs="false")

    def test_internal_topics(self) -> None:
        """They would be other rows than those that were asked for."""
        self.assertEqual(source(**{"kafka.exclude.internal.topics": "true"}), source())
        name = "kafka.exclude.internal.topics"
        self.refused(f"option {name!r}: 'false' cannot be used; it takes one of true", **{name: "false"})

    def test_missing_options(self) -> None:
        """Brokers, and what goes together."""
        self.refused("'kafka.bootstrap.servers' is missing", without="kafka.bootstrap.servers")
        self.refused("'kafka.sasl.mechanism' is missing for SASL_SSL", kafka__security__protocol="SASL_SSL")
        self.refused(
            "user and password are missing for PLAIN",
            kafka__security__protocol="SASL_PLAINTEXT",
            kafka__sasl__mechanism="plain",
        )
        self.refused("go together", kafka__security__protocol="SSL", kafka__ssl__keystore__key="k")

    def test_secrets_are_not_quoted(self) -> None:
        """Errors end in logs."""
        with self.assertRaises(OptionError) as caught:
            source(
                kafka__security__protocol="SASL_SSL",
                kafka__sasl__mechanism="PLAIN",
                kafka__sasl__jaas__config='x.y.Z required username="u" password="hush";',
            )
        self.assertNotIn("hush", str(caught.exception))
        options = source(
            kafka__security__protocol="SASL_SSL",
            kafka__sasl__mechanism="PLAIN",
            kafka__sasl__username="u",
            kafka__sasl__password="hush",
        )
        self.assertNotIn("hush", repr(options))

    def test_times_win_over_offsets(self) -> None:
        """The single time wins over times, and these over offsets, at both ends."""
        offsets, times = '{"t": {"0": 3}}', '{"t": {"0": 7}}'
        both = source(startingOffsets=offsets, startingOffsetsByTimestamp=times, endingOffsets=offsets)
        self.assertEqual(both.starting, AtTimes({TopicPartition("t", 0): 7}))
        self.assertEqual(both.ending, AtOffsets({TopicPartition("t", 0): 3}))
        all_three = source(
            startingOffsets=offsets,
            startingOffsetsByTimestamp=times,
            startingTimestamp="0",
            endingOffsetsByTimestamp=times,
            endingTimestamp="9",
        )
        self.assertEqual((all_three.starting, all_three.ending), (AtTime(0), AtTime(9)))

    def test_positions_of_batches_and_streams(self) -> None:
        """Positions that make no sense are refused."""
        self.refused("'startingOffsets'", "cannot begin at latest", startingOffsets="latest")
        self.refused("'startingOffsets'", "of t-0", startingOffsets='{"t": {"0": -1}}')
        self.refused("'endingOffsets'", "cannot end at earliest", endingOffsets="earliest")
        self.refused("'endingOffsets'", "of t-0", endingOffsets='{"t": {"0": -2}}')
        one, two = '{"t": {"0": 3}}', '{"t": {"0": 2}}'
        self.refused("t-0 would end at 2, before it begins at 3", startingOffsets=one, endingOffsets=two)
        self.refused("needs the partitions", startingOffsets=one, endingOffsets='{"t": {"1": 9}}')
        self.refused("'endingTimestamp': 4 is before", startingTimestamp="5", endingTimestamp="4")
        for name, value in (("endingOffsets", one), ("endingOffsetsByTimestamp", one), ("endingTimestamp", "5")):
            self.refused(f"option {name!r} is for batches", streaming=True, **{name: value})
        source(streaming=True, startingOffsets='{"t": {"0": -1}}')

    def test_the_least_is_not_more_than_the_most(self) -> None:
        """Else no batch would ever be right."""
        self.refused("9 is more than maxOffsetsPerTrigger, 8", minOffsetsPerTrigger="9", maxOffsetsPerTrigger="8")

    def test_every_option_is_read(self) -> None:
        """No name stands in two tables, and all can be given."""
        names = (
            [each.name for each in SOURCE_OPTIONS]
            + [PREFIX + each.name for table in (CONSUMER_OPTIONS, CONNECTION_OPTIONS) for each in table]
            + list(REFUSED)
        )
        self.assertEqual(len(names), len({name.lower() for name in names}))

    def test_durations(self) -> None:
        """As Spark writes them."""
        for text, seconds in (("15m", 900), ("30s", 30), ("250", 0.25), ("500ms", 0.5), ("2h", 7200), ("1d", 86400)):
            self.assertEqual(source(maxTriggerDelay=text).max_trigger_delay, seconds)
