"""``kafka-acls``: lists, adds and removes ACLs (Kafka: AclCommand)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from logbus.cli.kafka_scripts.console import confirms, say
from logbus.cli.kafka_scripts.java_errors import broker_text
from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.session import with_cluster
from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster
from logbus.errors import ApiError, LogbusError
from logbus.security.acl.acls import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermission,
    CodedEnum,
    PatternType,
    ResourcePattern,
    ResourceType,
)

_ACTIONS = ("list", "add", "remove")
_NAMED = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
_ENTRY = ("allow-principal", "deny-principal", "allow-host", "deny-host", "operation", "producer", "consumer")

Resource = tuple[ResourceType, str, PatternType]
Entries = Mapping[ResourcePattern, Sequence[AccessControlEntry]]

PARSER = OptionParser(
    "Lists, adds and removes ACLs.",
    [
        Option("list", help="Print ACLs."),
        Option("add", help="Add ACLs."),
        Option("remove", help="Remove ACLs."),
        Option("topic", "topic", "A topic; * for all. May be repeated, as all names."),
        Option("group", "group", "A group."),
        Option("cluster", help="The cluster itself."),
        Option("transactional-id", "transactional-id", "A transactional id."),
        Option("delegation-token", "delegation-token", "A delegation token."),
        Option("user-principal", "user-principal", "A user, whose delegation tokens are meant."),
        Option("resource-pattern-type", "type", "literal (the default) or prefixed; to list and remove any or match."),
        Option("allow-principal", "allow-principal", "Who is allowed, such as User:alice."),
        Option("deny-principal", "deny-principal", "Who is denied."),
        Option("allow-host", "allow-host", "The address from which principals are allowed; by default all."),
        Option("deny-host", "deny-host", "The address from which principals are denied; by default all."),
        Option("operation", "String", "Read, Write, Describe, … or All (the default)."),
        Option("producer", help="What a producer needs."),
        Option("consumer", help="What a consumer needs."),
        Option("idempotent", help="With --producer: IdempotentWrite on the cluster, too."),
        Option("principal", "principal", "With --list: only those of a principal.", is_optional=True),
        Option("force", help="Do not ask."),
        Option("bootstrap-controller", "controller", refusal="use --bootstrap-server: a broker is the controller"),
    ],
)


def run(options: ParsedOptions) -> int:
    """Run the command; returns the exit status."""
    action = options.only_one(_ACTIONS, "Command must include exactly one action: --list, --add, --remove. ")
    options.require("bootstrap-server")
    patterns = _resources(options, action)
    entries = entries_of(options, action) if action != "list" else {}

    async def work(cluster: Cluster, admin: AdminClient) -> None:
        if action == "list":
            await _list(admin, patterns, options.values("principal"))
        elif action == "add":
            await _add(admin, entries)
        else:
            await _remove(admin, patterns, entries)

    if action == "remove" and not options.has("force") and not _confirmed(patterns, entries):
        return 0
    try:
        with_cluster(options, work)
    except LogbusError as e:
        say(f"Error while executing ACL command: {broker_text(e, 'ACLs') if isinstance(e, ApiError) else e}")
        return 1
    return 0


def acl_lines(bindings: Iterable[AclBinding]) -> Iterator[str]:
    """The lines about ACLs, by resource."""
    by_pattern: dict[ResourcePattern, list[AccessControlEntry]] = {}
    for pattern, entry in sorted(set(bindings)):
        by_pattern.setdefault(pattern, []).append(entry)
    for pattern, entries in by_pattern.items():
        yield f"Current ACLs for resource `{pattern_text(pattern)}`:"
        yield from (f"\t{entry_text(entry)}" for entry in entries)
        yield ""


def pattern_text(pattern: ResourcePattern | Resource) -> str:
    """A resource as Kafka's tools print it."""
    kind, name, form = pattern
    return f"ResourcePattern(resourceType={kind.name}, name={name}, patternType={form.name})"


def entry_text(entry: AccessControlEntry) -> str:
    """An entry as Kafka's tools print it."""
    return (
        f"(principal={entry.principal}, host={entry.host}, operation={entry.operation.name}, "
        f"permissionType={entry.permission.name})"
    )


def entries_of(options: ParsedOptions, action: str) -> Entries:
    """
    The entries by resource that options describe; none if they name no principal, to remove all of the resources.

    :raise UsageError: they are wrong, or do not go together.
    """
    principals = options.has("allow-principal") or options.has("deny-principal")
    if not principals:
        if action == "add" or any(map(options.has, _ENTRY)):
            raise UsageError(
                f"You must specify one of: --allow-principal, --deny-principal when trying to {action} ACLs."
            )
        return {}
    for who in ("allow", "deny"):
        if options.has(f"{who}-host") and not options.has(f"{who}-principal"):
            raise UsageError(f"--{who}-host goes with --{who}-principal")
        for text in options.values(f"{who}-principal"):
            if not all(text.partition(":")):
                raise UsageError(
                    "Error while executing ACL command: expected a string in format principalType:principalName but "
                    f"got {text}"
                )
    found: dict[ResourcePattern, list[AccessControlEntry]] = {}
    for kind, name, form, operation in _operations(options, action):
        if action == "add" and form not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise UsageError("A '--resource-pattern-type' value of 'Any' or 'Match' is not valid when adding acls.")
        pattern = ResourcePattern(kind, name, form)
        for entry in _entries(options, operation):
            held = found.setdefault(pattern, [])
            if entry not in held:
                held.append(entry)
    return found


def _entries(options: ParsedOptions, operation: AclOperation) -> Iterator[AccessControlEntry]:
    for who, permission in (("allow", AclPermission.ALLOW), ("deny", AclPermission.DENY)):
        for principal in options.values(f"{who}-principal"):
            for host in options.values(f"{who}-host") or [WILDCARD]:
                yield AccessControlEntry(principal, host, operation, permission)


def _operations(options: ParsedOptions, action: str) -> Iterator[tuple[ResourceType, str, PatternType, AclOperation]]:
    op, kinds = AclOperation, ResourceType
    resources = _resources(options, action)
    if not (options.has("producer") or options.has("consumer")):
        for kind, name, form in resources:
            for text in options.values("operation") or ["All"]:
                yield kind, name, form, _operation(kind, text)
        return
    named = {kind for kind, _, _ in resources}
    if options.has("operation"):
        raise UsageError('Option "[operation]" can\'t be used with option "[producer]" or "[consumer]"')
    if options.has("producer") and kinds.TOPIC not in named:
        raise UsageError("With --producer you must specify a --topic")
    if options.has("consumer") and not {kinds.TOPIC, kinds.GROUP} <= named:
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id "
            "option should be specified."
        )
    for kind, name, form in resources:
        if options.has("producer") and kind in (kinds.TOPIC, kinds.TRANSACTIONAL_ID):
            creates = [op.CREATE] if kind is kinds.TOPIC else []
            for each in (op.WRITE, op.DESCRIBE, *creates):
                yield kind, name, form, each
        if options.has("consumer") and kind is kinds.TOPIC:
            yield kind, name, form, op.READ
            yield kind, name, form, op.DESCRIBE
        if options.has("consumer") and kind is kinds.GROUP:
            yield kind, name, form, op.READ
    if options.has("producer") and options.has("idempotent"):
        yield kinds.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, op.IDEMPOTENT_WRITE


def _operation(kind: ResourceType, text: str) -> AclOperation:
    known = [*OPERATIONS_OF[kind], AclOperation.ALL]
    try:
        found = AclOperation.of_title(text)
    except ValueError:
        found = AclOperation.UNKNOWN
    if found not in known:
        names = ", ".join(each.name for each in known)
        raise UsageError(f"ResourceType {kind.name} only supports operations [{names}]")
    return found


def _resources(options: ParsedOptions, action: str) -> list[Resource]:
    """
    The resources that options name.

    :raise UsageError: none is named, but one has to be.
    """
    form = _member(PatternType, options.value("resource-pattern-type") or "literal", "resource-pattern-type")
    found: list[Resource] = [
        (kind, name.strip(), form) for option, kind in _NAMED.items() for name in options.values(option)
    ]
    if options.has("cluster"):
        found.append((ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    if not found and action != "list":
        raise UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    return found


def _member(enum: type[CodedEnum], text: str, option: str) -> PatternType:
    try:
        found = enum.of_title(text)
    except ValueError as e:
        raise UsageError(f"--{option}: {e}") from None
    assert isinstance(found, PatternType)
    return found


async def _list(admin: AdminClient, resources: Sequence[Resource], principals: Sequence[str]) -> None:
    filters = [AclBindingFilter(*each) for each in resources] or [AclBindingFilter(pattern_type=PatternType.ANY)]
    bindings = [binding for each in filters for binding in await admin.describe_acls(each)]
    if not principals:
        say("".join(f"{line}\n" for line in acl_lines(bindings)), end="")
    for principal in principals:
        say(f"ACLs for principal `{principal}`")
        theirs = [binding for binding in bindings if binding.entry.principal == principal]
        say("".join(f"{line}\n" for line in acl_lines(theirs)), end="")


async def _add(admin: AdminClient, entries: Entries) -> None:
    for pattern, theirs in entries.items():
        lines = "\n".join(f"\t{entry_text(entry)}" for entry in theirs)
        say(f"Adding ACLs for resource `{pattern_text(pattern)}`: \n {lines}\n")
    answers = await admin.create_acls(
        AclBinding(pattern, each) for pattern, theirs in entries.items() for each in theirs
    )
    for error in answers.values():
        if error is not None:
            raise error


async def _remove(admin: AdminClient, resources: Sequence[Resource], entries: Entries) -> None:
    filters = [AclBindingFilter(*each) for each in resources]
    if entries:
        filters = [
            AclBindingFilter(*pattern, each.principal, each.host, each.operation, each.permission)
            for pattern, theirs in entries.items()
            for each in theirs
        ]
    for wanted in filters:
        for error in (await admin.delete_acls(wanted)).values():
            if error is not None:
                raise error


def _confirmed(resources: Sequence[Resource], entries: Entries) -> bool:
    """Whether the user wants each removal."""
    for pattern, theirs in entries.items():
        lines = "\n".join(f"\t{entry_text(entry)}" for entry in theirs)
        question = f"Are you sure you want to remove ACLs: \n {lines}\n from resource filter `{pattern_text(pattern)}`?"
        if not confirms(f"{question} (y/n)"):
            return False
    for each in resources if not entries else ():
        if not confirms(f"Are you sure you want to delete all ACLs for resource filter `{pattern_text(each)}`? (y/n)"):
            return False
    return True
