"""Names the right that a command lacks where a broker denies it: an operation of an ACL, and its resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from logbus.errors import ApiError, ErrorCode

_RESOURCES: Mapping[ErrorCode, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "delegation token",
}

_OPERATIONS: Mapping[str, Mapping[str, str]] = {
    "topics describe": {"topic": "Describe"},
    "topics create": {"topic": "Create", "cluster": "Create"},
    "topics delete": {"topic": "Delete"},
    "topics add-partitions": {"topic": "Alter"},
    "topics export": {"topic": "Read"},
    "topics import": {"topic": "Write", "cluster": "IdempotentWrite"},
    "produce": {"topic": "Write", "cluster": "IdempotentWrite"},
    "consume": {"topic": "Read", "group": "Read"},
    "groups describe": {"topic": "Describe", "group": "Describe"},
    "groups delete": {"group": "Delete"},
    "groups delete-offsets": {"topic": "Read", "group": "Delete"},
    "groups reset-offsets": {"topic": "Read", "group": "Read"},
    "groups export": {"topic": "Describe", "group": "Describe"},
    "groups import": {"topic": "Read", "group": "Read"},
    "transactions describe": {"topic": "Describe", "transactional id": "Describe"},
    "transactions force-terminate": {"transactional id": "Write"},
    "transactions describe-producers": {"topic": "Read"},
    "transactions find-hanging": {"topic": "Read", "transactional id": "Describe"},
    "transactions abort": {"topic": "Write", "cluster": "Alter"},
    "configs describe": dict.fromkeys(("topic", "group", "cluster"), "DescribeConfigs"),
    "configs set": dict.fromkeys(("topic", "group", "cluster"), "AlterConfigs"),
    "configs delete": dict.fromkeys(("topic", "group", "cluster"), "AlterConfigs"),
    "users list": {"cluster": "Describe"},
    "users describe": {"cluster": "Describe"},
    "users add": {"cluster": "Alter"},
    "users alter": {"cluster": "Alter"},
    "users delete": {"cluster": "Alter"},
    "acls list": {"cluster": "Describe"},
    "acls add": {"cluster": "Alter"},
    "acls remove": {"cluster": "Alter"},
    "quotas list": {"cluster": "DescribeConfigs"},
    "quotas describe": {"cluster": "DescribeConfigs"},
    "quotas set": {"cluster": "AlterConfigs"},
    "quotas delete": {"cluster": "AlterConfigs"},
    "log-dirs describe": {"cluster": "Describe"},
    "log-dirs move": {"cluster": "Alter"},
    "cluster reassign": {"cluster": "Describe (to change: Alter)"},
    "cluster elect-leaders": {"cluster": "Alter"},
    "bench produce": {"topic": "Write", "cluster": "IdempotentWrite"},
    "bench fetch": {"topic": "Read"},
}
"""By command, and by the kind of resource that was denied. Where only one request of several may be denied, none."""


def missing_rights(errors: Iterable[ApiError]) -> str:
    """
    A sentence that names what the running command lacks, to be appended to its errors.

    :returns: "": none of them is a denial.
    """
    context = click.get_current_context(silent=True)
    names: list[str] = []
    while context is not None and context.parent is not None:
        names.insert(0, str(context.info_name))
        context = context.parent
    needed = _OPERATIONS.get(" ".join(names), {})
    kinds = dict.fromkeys(_RESOURCES[error.code] for error in errors if error.code in _RESOURCES)
    found = [f"{needed[kind]} of the {kind}" for kind in kinds if kind in needed]
    return f"an ACL must allow {' and '.join(found)} (logbus acls add)" if found else ""
