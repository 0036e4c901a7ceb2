"""
``kafka-configs``: describes and alters settings of topics, brokers and groups, quotas, and users' passwords (Kafka:
ConfigCommand).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from attrs import frozen

from logbus.cli.kafka_scripts.config_entities import (
    DEFAULT,
    QUOTA_TYPES,
    Entity,
    configs_to_add,
    configs_to_delete,
    entities_of,
    singular,
)
from logbus.cli.kafka_scripts.config_report import config_lines, quota_line, scram_line
from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.java_errors import java_text
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import client_properties, with_cluster
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.config_admin import Resource, ResourceType
from logbus.client.admin.quota_admin import QuotaEntity
from logbus.client.admin.user_admin import SCRAM_MECHANISMS, ScramPassword
from logbus.client.cluster.cluster import Cluster
from logbus.errors import ApiError, LogbusError

_RESOURCES = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.LOGGER,
    "groups": ResourceType.GROUP,
}

PARSER = OptionParser(
    "Describes and alters settings of topics, brokers and groups, quotas, and users' passwords.",
    [
        Option("describe", help="Print what is set."),
        Option("alter", help="Change it, by --add-config, --add-config-file and --delete-config."),
        Option("all", help="With --describe: also what is not set for the entity."),
        Option("entity-type", "String", "topics, clients, users, brokers, broker-loggers, ips or groups."),
        Option("entity-name", "String", "The name of the entity of a type; without one, all are described."),
        Option("entity-default", help="Instead of a name: the default of all entities of the type."),
        Option("topic", "String", "A topic."),
        Option("client", "String", "A client id."),
        Option("client-defaults", help="The default of client ids."),
        Option("user", "String", "A user."),
        Option("user-defaults", help="The default of users."),
        Option("broker", "String", "A broker's id."),
        Option("broker-defaults", help="The default of brokers."),
        Option("broker-logger", "String", "A broker's id: its loggers."),
        Option("ip", "String", "An address."),
        Option("ip-defaults", help="The default of addresses."),
        Option("group", "String", "A group's id."),
        Option("client-metrics", "String", refusal="brokers of logbus do not subscribe to clients' metrics"),
        Option("add-config", "String", "name=value,name=[value1,value2]."),
        Option("add-config-file", "String", "A file of properties to set."),
        Option("delete-config", "String", "name1,name2."),
        Option("bootstrap-controller", "String", refusal="use --bootstrap-server: a broker is the controller"),
    ],
)


@frozen
class _Changes:
    """The changes of a command: new values, and names to delete."""

    added: Mapping[str, str]
    deleted: Sequence[str]

    @classmethod
    def of(cls, options: ParsedOptions) -> _Changes:
        added = client_properties(options, ("add-config-file",)) | configs_to_add(options.values("add-config"))
        deleted = configs_to_delete(options.values("delete-config"))
        if not (added or deleted):
            raise UsageError(
                "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
            )
        return cls(added, deleted)

    @property
    def values(self) -> dict[str, str | None]:
        """The new values; None: deleted."""
        return {**dict.fromkeys(self.deleted), **self.added}


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    action = options.only_one(("describe", "alter"), "Command must include exactly one action: --describe, --alter")
    if not options.has("bootstrap-server"):
        raise UsageError("--bootstrap-server must be specified")
    entities = entities_of(options, names_required=action == "alter")
    changes = _Changes.of(options) if action == "alter" else None
    every = options.has("all")

    async def work(cluster: Cluster, admin: AdminClient) -> None:
        if changes is None:
            await _describe(cluster, admin, entities, every=every)
        else:
            await _alter(admin, entities, changes)
            say(_updated(entities[0]))

    try:
        with_cluster(options, work)
    except LogbusError as e:
        complain(f"Error while executing config command with args '{_shown_arguments(sys.argv[2:])}'")
        subject = f"{singular(entities[0].type)} {entities[0].name}"
        complain(java_text(e, subject) if isinstance(e, ApiError) else str(e))
        return 1
    return 0


def _updated(entity: Entity) -> str:
    if entity.name == DEFAULT:
        return f"Completed updating default config for {entity.type} in the cluster."
    return f"Completed updating config for {singular(entity.type)} {entity.name}."


def _shown_arguments(arguments: Sequence[str]) -> str:
    """The arguments, without those that may be passwords."""
    return " ".join("..." if "password" in word else word for word in arguments)


async def _describe(cluster: Cluster, admin: AdminClient, entities: Sequence[Entity], *, every: bool) -> None:
    if entities[0].type in QUOTA_TYPES:
        await _describe_quotas(admin, entities)
        return
    (entity,) = entities
    for name in await _names(admin, entity):
        if not await _exists(admin, entity.type, name):
            say(f"The {singular(entity.type)} '{name}' doesn't exist and doesn't have dynamic config.")
            continue
        resource = Resource(_RESOURCES[entity.type], name)
        answer = (await admin.describe_configs([resource], synonyms=True))[resource]
        if isinstance(answer, ApiError):
            raise answer
        say("\n".join(config_lines(Entity(entity.type, name), answer, every=every)))


async def _names(admin: AdminClient, entity: Entity) -> list[str]:
    if entity.name is not None:
        return [entity.name]
    if entity.type == "topics":
        return [topic.name for topic in await admin.list_topics(internal=True)]
    if entity.type == "groups":
        return [group.group_id for group in await admin.list_groups()]
    brokers = [str(node.node_id) for node in (await admin.describe_cluster()).nodes]
    return [*brokers, DEFAULT] if entity.type == "brokers" else brokers


async def _exists(admin: AdminClient, kind: str, name: str) -> bool:
    if kind == "topics":
        return name in {topic.name for topic in await admin.list_topics(internal=True)}
    if kind in ("brokers", "broker-loggers") and name != DEFAULT:
        return name in {str(node.node_id) for node in (await admin.describe_cluster()).nodes}
    return True


async def _describe_quotas(admin: AdminClient, entities: Sequence[Entity]) -> None:
    wanted = {QUOTA_TYPES[each.type]: each.name for each in entities}
    for entity, values in sorted((await admin.describe_client_quotas()).items(), key=lambda one: str(one[0])):
        parts = dict(entity.parts)
        if parts.keys() == wanted.keys() and all(
            name in (None, parts[kind] or DEFAULT) for kind, name in wanted.items()
        ):
            say(quota_line(entity, values))
    if [each.type for each in entities] == ["users"] and entities[0].name != DEFAULT:
        name = entities[0].name
        for user, answer in (await admin.describe_scram_users([] if name is None else [name])).items():
            if not isinstance(answer, ApiError):
                say(scram_line(user, answer))


async def _alter(admin: AdminClient, entities: Sequence[Entity], changes: _Changes) -> None:
    values = changes.values
    if entities[0].type not in QUOTA_TYPES:
        (entity,) = entities
        resource = Resource(_RESOURCES[entity.type], entity.name or DEFAULT)
        _raise((await admin.alter_configs({resource: values}))[resource])
        return
    scram = {name: values.pop(name) for name in SCRAM_MECHANISMS if name in values}
    if scram:
        if [each.type for each in entities] != ["users"] or not entities[0].name:
            raise UsageError("SCRAM credentials can only be set for one user")
        if values:
            raise UsageError(
                "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using "
                "--bootstrap-server."
            )
        await _alter_passwords(admin, entities[0].name, scram)
    if values:
        entity_ = QuotaEntity.of({QUOTA_TYPES[each.type]: each.name or None for each in entities})
        quotas = {name: _quota(name, value) for name, value in values.items()}
        for error in (await admin.alter_client_quotas({entity_: quotas})).values():
            _raise(error)


async def _alter_passwords(admin: AdminClient, user: str, scram: Mapping[str, str | None]) -> None:
    passwords = [password_of(user, name, text) for name, text in scram.items() if text is not None]
    deletions = [(user, name) for name, text in scram.items() if text is None]
    for error in (await admin.alter_scram_users(passwords, deletions)).values():
        _raise(error)


def password_of(user: str, mechanism: str, text: str) -> ScramPassword:
    """
    Parse ``iterations=8192,password=secret``.

    :raise UsageError: it does not have this form.
    """
    found = configs_to_add([text])
    iterations = found.pop("iterations", "4096")
    if found.keys() != {"password"} or not found["password"] or not iterations.isdigit():
        raise UsageError(f"{mechanism} has to be set as {mechanism}=[iterations=8192,password=...]")
    return ScramPassword(user, mechanism, found["password"], int(iterations))


def _quota(name: str, value: str | None) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        raise UsageError(f"Cannot parse quota configuration value for {name}: {value}") from None


def _raise(error: ApiError | None) -> None:
    if error is not None:
        raise error
