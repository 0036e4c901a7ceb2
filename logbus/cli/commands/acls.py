"""The ``logbus acls`` commands: who may do what (Kafka: kafka-acls)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import print_json, print_table

if TYPE_CHECKING:
    from logbus.client.admin.admin_client import AdminClient
    from logbus.security.acl.acls import AclBinding, AclBindingFilter, CodedEnum, ResourceType

F = TypeVar("F", bound=Callable[..., Any])

_RESOURCES = (
    ("--topic", "topic", "NAME", "A topic"),
    ("--group", "group", "NAME", "A group"),
    ("--transactional-id", "transactional_id", "NAME", "A transactional id"),
    ("--user-principal", "user", "NAME", "A user, whose delegation tokens are meant"),
    ("--delegation-token", "delegation_token", "ID", "A delegation token"),
)


def _resource_options(command: F) -> F:
    command = click.option(
        "--resource-pattern-type",
        "pattern_type",
        metavar="TYPE",
        help="literal (the default), or prefixed; to list and remove also match (all that apply to the name) and any.",
    )(command)
    command = click.option("--cluster", is_flag=True, help="The cluster itself.")(command)
    for option, parameter, metavar, what in reversed(_RESOURCES):
        command = click.option(
            option, parameter, metavar=metavar, multiple=True, help=f"{what}; * for all. May be repeated."
        )(command)
    return command


def _entry_options(command: F) -> F:
    for option, metavar, text in (
        ("--operation", "OPERATION", "Read, Write, Describe, … or All. May be repeated."),
        ("--deny-host", "HOST", "The address from which the principals are denied; by default all."),
        ("--allow-host", "HOST", "The address from which the principals are allowed; by default all."),
        ("--deny-principal", "PRINCIPAL", "Who is denied, such as User:alice, or User:* for all. May be repeated."),
        ("--allow-principal", "PRINCIPAL", "Who is allowed, such as User:alice, or User:* for all. May be repeated."),
    ):
        command = click.option(option, metavar=metavar, multiple=True, help=text)(command)
    return command


@click.group()
def acls() -> None:
    """Show and change who may do what.

    Brokers obey ACLs if authorizer.class.name names Kafka's authorizer. A denial wins over all that allows.

    \b
    Example:
      logbus acls add --allow-principal User:alice --operation Write --topic orders
      logbus acls add --allow-principal User:bob --consumer --topic orders --group shop
      logbus acls list
    """


@acls.command("list", short_help="Print ACLs.")
@_resource_options
@click.option("--principal", metavar="PRINCIPAL", help="Only those of a principal, such as User:alice.")
@json_option
@bootstrap_options
def list_acls(principal: str | None, as_json: bool, bootstrap: str, timeout: float, **resources: Any) -> None:
    """Print ACLs: all, or those of some resources or of a principal.

    \b
    Example:
      logbus acls list --topic orders --resource-pattern-type match
    """
    from logbus.cli.runner import with_admin

    filters = [each._replace(principal=principal) for each in _filters(**resources)]

    async def work(admin: AdminClient) -> list[AclBinding]:
        return [binding for each in filters for binding in await admin.describe_acls(each)]

    found = sorted(set(with_admin(bootstrap, timeout, work)))
    rows = [
        [
            binding.pattern.resource_type.title,
            binding.pattern.name,
            binding.pattern.pattern_type.title,
            binding.entry.principal,
            binding.entry.host,
            binding.entry.permission.title,
            binding.entry.operation.title,
        ]
        for binding in found
    ]
    headings = ["resource", "name", "pattern", "principal", "host", "permission", "operation"]
    if as_json:
        print_json([dict(zip(headings, row, strict=True)) for row in rows])
    elif rows:
        print_table(headings, rows)


@acls.command(short_help="Add ACLs.")
@_resource_options
@_entry_options
@click.option("--producer", is_flag=True, help="What a producer needs: Write, Describe and Create on its topics.")
@click.option("--consumer", is_flag=True, help="What a consumer needs: Read and Describe on topics, Read on groups.")
@click.option("--idempotent", is_flag=True, help="With --producer: IdempotentWrite on the cluster, too.")
@bootstrap_options
def add(producer: bool, consumer: bool, idempotent: bool, bootstrap: str, timeout: float, **given: Any) -> None:
    """Allow or deny principals operations on resources.

    \b
    Example:
      logbus acls add --allow-principal User:alice --producer --topic orders
      logbus acls add --deny-principal 'User:*' --deny-host 10.0.0.9 --operation All --topic '*'
    """
    from logbus.cli.runner import raise_errors, with_admin

    bindings = list(_bindings(producer, consumer, idempotent, **given))
    raise_errors(with_admin(bootstrap, timeout, lambda admin: admin.create_acls(bindings)))


@acls.command(short_help="Remove ACLs.")
@_resource_options
@_entry_options
@bootstrap_options
def remove(bootstrap: str, timeout: float, **given: Any) -> None:
    """Remove ACLs: those given by all options, or without --allow-principal and --deny-principal all of a resource.

    \b
    Example:
      logbus acls remove --allow-principal User:alice --operation Write --topic orders
      logbus acls remove --topic orders
    """
    from logbus.cli.runner import raise_errors, with_admin

    entries = {name: given.pop(name) for name in ("operation", "allow_host", "deny_host")}
    principals = {name: given.pop(name) for name in ("allow_principal", "deny_principal")}
    if any(principals.values()):
        wanted = [_exactly(each) for each in _bindings(False, False, False, **given, **entries, **principals)]
    elif any(entries.values()):
        raise click.UsageError("say also whose ACLs: --allow-principal or --deny-principal")
    else:
        wanted = _filters(**given, required=True)

    async def work(admin: AdminClient) -> None:
        for each in wanted:
            raise_errors(await admin.delete_acls(each))

    with_admin(bootstrap, timeout, work)


def _member(enum: type[CodedEnum], text: str, option: str) -> Any:
    try:
        return enum.of_title(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def _named(cluster: bool, **resources: tuple[str, ...]) -> list[tuple[ResourceType, str]]:
    """The resources that options name."""
    from logbus.security.acl.acls import CLUSTER_NAME, ResourceType

    named = [(ResourceType.of_title(kind), name) for kind, names in resources.items() for name in names]
    return [*named, (ResourceType.CLUSTER, CLUSTER_NAME)] if cluster else named


def _filters(
    pattern_type: str | None, cluster: bool, required: bool = False, **resources: Any
) -> list[AclBindingFilter]:
    from logbus.security.acl.acls import AclBindingFilter, PatternType

    named = _named(cluster, **resources)
    if required and not named:
        raise click.UsageError("say which resources, such as --topic NAME or --cluster")
    kind = PatternType.ANY if pattern_type is None else _member(PatternType, pattern_type, "--resource-pattern-type")
    if named and pattern_type is None:
        kind = PatternType.LITERAL
    return [AclBindingFilter(each, name, kind) for each, name in named] or [AclBindingFilter(pattern_type=kind)]


def _bindings(
    producer: bool,
    consumer: bool,
    idempotent: bool,
    pattern_type: str | None,
    cluster: bool,
    operation: tuple[str, ...],
    allow_principal: tuple[str, ...],
    deny_principal: tuple[str, ...],
    allow_host: tuple[str, ...],
    deny_host: tuple[str, ...],
    **resources: tuple[str, ...],
) -> Iterator[AclBinding]:
    """The ACLs that options describe."""
    from logbus.security.acl.acls import (
        CLUSTER_NAME,
        OPERATIONS_OF,
        WILDCARD,
        AccessControlEntry,
        AclBinding,
        AclOperation,
        AclPermission,
        PatternType,
        ResourcePattern,
        ResourceType,
    )

    op, kinds = AclOperation, ResourceType
    named = _named(cluster, **resources)
    if not named:
        raise click.UsageError("say which resources, such as --topic NAME or --cluster")
    if not (allow_principal or deny_principal):
        raise click.UsageError("say who: --allow-principal User:NAME or --deny-principal User:NAME")
    if (allow_host and not allow_principal) or (deny_host and not deny_principal):
        raise click.UsageError("--allow-host goes with --allow-principal, and --deny-host with --deny-principal")
    wanted: list[tuple[ResourceType, str, AclOperation]] = []
    for kind, name in named:
        for text in operation:
            each = _member(op, text, "--operation")
            if each is not op.ALL and each not in OPERATIONS_OF[kind]:
                known = ", ".join(one.title for one in (*OPERATIONS_OF[kind], op.ALL))
                raise click.BadParameter(f"a {kind.title} has {known}, not {text}", param_hint="--operation")
            wanted.append((kind, name, each))
        if producer and kind in (kinds.TOPIC, kinds.TRANSACTIONAL_ID):
            creates = (op.CREATE,) if kind is kinds.TOPIC else ()
            wanted += [(kind, name, each) for each in (op.WRITE, op.DESCRIBE, *creates)]
        if consumer and kind in (kinds.TOPIC, kinds.GROUP):
            wanted += [(kind, name, each) for each in ((op.READ, op.DESCRIBE) if kind is kinds.TOPIC else (op.READ,))]
    if producer and idempotent:
        wanted.append((kinds.CLUSTER, CLUSTER_NAME, op.IDEMPOTENT_WRITE))
    if not wanted:
        raise click.UsageError("say what: --operation, --producer (for topics) or --consumer (for topics and groups)")
    pattern = PatternType.LITERAL
    if pattern_type is not None:
        pattern = _member(PatternType, pattern_type, "--resource-pattern-type")
    for principals, hosts, permission in (
        (allow_principal, allow_host, AclPermission.ALLOW),
        (deny_principal, deny_host, AclPermission.DENY),
    ):
        for principal in principals:
            for host in hosts or (WILDCARD,):
                for kind, name, each in wanted:
                    entry = AccessControlEntry(principal, host, each, permission)
                    # The cluster has one name, whatever the pattern of the others.
                    form = PatternType.LITERAL if kind is kinds.CLUSTER else pattern
                    binding = AclBinding(ResourcePattern(kind, name, form), entry)
                    try:
                        binding.check()
                    except ValueError as error:
                        raise click.UsageError(str(error)) from None
                    yield binding


def _exactly(binding: AclBinding) -> AclBindingFilter:
    from logbus.security.acl.acls import AclBindingFilter

    pattern, entry = binding
    return AclBindingFilter(*pattern, entry.principal, entry.host, entry.operation, entry.permission)
