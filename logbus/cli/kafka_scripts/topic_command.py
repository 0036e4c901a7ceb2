"""``kafka-topics``: creates, lists, describes, alters and deletes topics (Kafka: TopicCommand)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.java_errors import broker_text
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import with_cluster
from logbus.cli.kafka_scripts.topic_description import DescribedTopic, DescribeFilter, described_topics, topic_lines
from logbus.cli.kafka_scripts.topic_names import topic_filter
from logbus.cli.runner import CommandFailed
from logbus.client.admin.admin_client import AdminClient, NewTopic
from logbus.client.cluster.cluster import Cluster, TopicMetadata
from logbus.errors import ApiError, ErrorCode, LogbusError

_ACTIONS = ("list", "describe", "create", "alter", "delete")
_FILTERS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)

PARSER = OptionParser(
    "Creates, lists, describes, alters and deletes topics.",
    [
        Option("list", help="Print the names of topics."),
        Option("describe", help="Print the partitions of topics."),
        Option("create", help="Create a topic."),
        Option("alter", help="Add partitions to topics."),
        Option("delete", help="Delete topics."),
        Option("topic", "topic", "The topic; but for --create, regular expressions separated by commas."),
        Option("topic-id", "topic-id", "With --describe: the topic, by its id."),
        Option("config", "name=value", "With --create: a setting; may be repeated."),
        Option("partitions", "# of partitions", "Of the topic to create, or to alter.", bits=32),
        Option("replication-factor", "replication factor", "Of the topic to create.", bits=16),
        Option("replica-assignment", "0:1,1:2,...", "The brokers of each partition, of all or of those added."),
        Option("under-replicated-partitions", help="With --describe: only partitions that lack replicas."),
        Option("unavailable-partitions", help="With --describe: only partitions without a leader."),
        Option("under-min-isr-partitions", help="With --describe: only with fewer in sync than min.insync.replicas."),
        Option("at-min-isr-partitions", help="With --describe: only with as many in sync as min.insync.replicas."),
        Option("topics-with-overrides", help="With --describe: only the first lines of topics with settings."),
        Option("if-exists", help="With --alter, --delete, --describe: only if the topic exists."),
        Option("if-not-exists", help="With --create: only if the topic does not exist."),
        Option("exclude-internal", help="With --list and --describe: without internal topics."),
        Option("partition-size-limit-per-response", "maximum", "Accepted, without an effect.", bits=32),
        Option("delete-config", "name", "Accepted, without an effect."),
    ],
)


@frozen
class _Request:
    """An action with its options."""

    action: str
    options: ParsedOptions

    async def __call__(self, cluster: Cluster, admin: AdminClient) -> None:
        match self.action:
            case "create":
                await _create(admin, self.options)
            case "list":
                topics = await _chosen(admin, self.options)
                say("\n".join(topic.name for topic in topics))
            case "describe":
                await _describe(cluster, admin, self.options)
            case "alter":
                await _alter(admin, self.options)
            case "delete":
                await _delete(admin, self.options)


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    action = _checked(options)
    if options.has("delete-config"):
        complain("delete-config is no longer supported by Kafka's command; kafka-configs deletes settings")
    try:
        with_cluster(options, _Request(action, options))
    except LogbusError as e:
        say(f"Error while executing topic command : {broker_text(e) if isinstance(e, ApiError) else e}")
        return 1
    return 0


def _checked(options: ParsedOptions) -> str:
    """
    The action.

    :raise UsageError: options are missing, or do not go together.
    """
    actions = ", ".join(f"--{name}" for name in _ACTIONS[:-1])
    action = options.only_one(_ACTIONS, f"Command must include exactly one action: {actions} or --{_ACTIONS[-1]}")
    if not options.has("bootstrap-server"):
        raise UsageError("--bootstrap-server must be specified")
    if action in ("create", "alter") or (action == "delete" and not options.has("topic-id")):
        options.require("topic")
    if action == "alter":
        if options.has("config"):
            raise UsageError(
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]" '
                "(To alter topic configurations, the kafka-configs tool can be used.)"
            )
        options.require("partitions")
    options.forbid("config", [each for each in _ACTIONS if each != "create"])
    options.forbid("partitions", ("delete", "list", "describe"))
    options.forbid("replication-factor", ("alter", "delete", "list", "describe"))
    options.forbid("replica-assignment", ("delete", "list", "describe"))
    if action == "create":
        options.forbid("replica-assignment", ("partitions", "replication-factor"))
    for name in (*_FILTERS, "topics-with-overrides", "topic-id"):
        options.forbid(name, [each for each in _ACTIONS if each != "describe"])
        options.forbid(name, [each for each in (*_FILTERS, "topics-with-overrides") if each != name])
    options.forbid("topic-id", ("topic",))
    options.forbid("if-exists", ("create", "list"))
    options.forbid("if-not-exists", ("alter", "delete", "list", "describe"))
    options.forbid("exclude-internal", ("alter", "create", "delete"))
    return action


async def _create(admin: AdminClient, options: ParsedOptions) -> None:
    name = options.text("topic")
    if "." in name or "_" in name:
        say(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    new = new_topic(name, options)
    error = (await admin.create_topics([new]))[name]
    if error is None:
        say(f"Created topic {name}.")
    elif not (error.code is ErrorCode.TOPIC_ALREADY_EXISTS and options.has("if-not-exists")):
        raise CommandFailed(broker_text(error, f"topic {name}"))


def new_topic(name: str, options: ParsedOptions) -> NewTopic:
    """
    The topic to create.

    :raise LogbusError: a number or a setting is wrong.
    """
    partitions, factor = options.integer("partitions"), options.integer("replication-factor")
    if partitions is not None and partitions < 1:
        raise CommandFailed("The partitions must be greater than 0")
    if factor is not None and factor < 1:
        raise CommandFailed("The replication factor must be between 1 and 32767 inclusive")
    configs = {}
    for text in options.values("config"):
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise CommandFailed(
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
            )
        configs[key.strip()] = value.strip()
    text_ = options.value("replica-assignment")
    assignment = None if text_ is None else replica_assignment(text_)
    return NewTopic(
        name, -1 if partitions is None else partitions, -1 if factor is None else factor, configs, assignment
    )


def replica_assignment(text: str) -> list[list[int]]:
    """
    Parse ``0:1,1:2`` into the broker ids of each partition's replicas.

    :raise LogbusError: it does not have this form, or partitions differ in their number of replicas.
    """
    try:
        found = [[int(number) for number in one.strip().split(":")] for one in text.split(",")]
    except ValueError:
        raise CommandFailed(
            f"{text!r} is not broker ids such as 0:1,1:2 (two partitions of two replicas each)"
        ) from None
    for index, replicas in enumerate(found):
        if len(set(replicas)) < len(replicas):
            twice = sorted({each for each in replicas if replicas.count(each) > 1})
            raise CommandFailed(
                f"Partition replica lists may not contain duplicate entries: {', '.join(map(str, twice))}"
            )
        if len(replicas) != len(found[0]):
            raise CommandFailed(f"Partition {index} has different replication factor: {replicas}")
    return found


async def _chosen(admin: AdminClient, options: ParsedOptions) -> list[TopicMetadata]:
    """The topics that ``--topic`` chooses, by name."""
    topics = await admin.list_topics(internal=not options.has("exclude-internal"))
    expression = options.value("topic")
    if expression is None:
        return topics
    matches = topic_filter(expression)
    return [topic for topic in topics if matches(topic.name)]


async def _existing(admin: AdminClient, options: ParsedOptions) -> list[TopicMetadata]:
    """
    The same, which has to be some with ``--topic``, unless ``--if-exists`` is given.

    :raise LogbusError: there is none.
    """
    topics, expression = await _chosen(admin, options), options.value("topic")
    if not topics and expression is not None and not options.has("if-exists"):
        raise CommandFailed(f"Topic '{expression}' does not exist as expected")
    return topics


async def _describe(cluster: Cluster, admin: AdminClient, options: ParsedOptions) -> None:
    topic_id = options.value("topic-id")
    if topic_id is None:
        topics = await _existing(admin, options)
    else:
        topics = [each for each in await admin.list_topics(internal=True) if _short_id(each) == topic_id]
        if not topics and not options.has("if-exists"):
            raise CommandFailed(f"TopicId '{topic_id}' does not exist as expected")
    if not topics:
        return
    wanted = DescribeFilter.of([name for name in _FILTERS if options.has(name)])
    described = await described_topics(cluster, admin, topics)
    text = "".join(_lines(described, wanted, options.has("topics-with-overrides")))
    say(text, end="")


def _lines(topics: Sequence[DescribedTopic], wanted: DescribeFilter, overrides: bool) -> list[str]:
    return [f"{line}\n" for topic in topics for line in topic_lines(topic, wanted, only_overrides=overrides)]


def _short_id(topic: TopicMetadata) -> str:
    from logbus.cli.kafka_scripts.topic_description import topic_id

    return topic_id(topic.topic_id)


async def _alter(admin: AdminClient, options: ParsedOptions) -> None:
    topics = await _existing(admin, options)
    if not topics:
        return
    count = options.integer("partitions") or 0
    if count < 1:
        raise CommandFailed("The partitions must be greater than 0")
    text = options.value("replica-assignment")
    assignments: dict[str, list[list[int]]] = {}
    if text is not None:
        # It has the partitions that are there already, too.
        every = replica_assignment(text)
        assignments = {topic.name: every[len(topic.partitions) :] for topic in topics}
    answers = await admin.create_partitions({topic.name: count for topic in topics}, assignments=assignments)
    _raise(answers)


async def _delete(admin: AdminClient, options: ParsedOptions) -> None:
    topics = await _existing(admin, options)
    if topics:
        _raise(await admin.delete_topics([topic.name for topic in topics]))


def _raise(answers: Mapping[str, ApiError | None]) -> None:
    for name, error in answers.items():
        if error is not None:
            raise CommandFailed(broker_text(error, f"topic {name}"))
