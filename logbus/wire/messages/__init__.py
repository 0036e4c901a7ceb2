"""
The messages, one family per module, and the register of APIs by number.

* ``api_versions``: API versions and features
* ``metadata``: brokers, topics and leaders
* ``sasl``: SASL authentication
* ``acls``: ACLs
* ``records``: Produce, Fetch, and offsets by time and by epoch
* ``topics``: creation and deletion of topics, partitions and records
* ``configs``: settings
* ``user_scram_credentials``: SCRAM credentials of users
* ``client_quotas``: quotas of users, client ids and addresses
* ``delegation_tokens``: delegation tokens
* ``elections``: leader elections and reassignments
* ``log_dirs``: log directories
* ``transactions``: producer ids and transactions
* ``transaction_admin``: states of producers and transactions
* ``groups``: coordinators, and groups of the classic protocol
* ``consumer_groups``: groups of the consumer protocol (KIP-848)
* ``share_groups``: share groups and their offsets (KIP-932)
* ``streams_groups``: streams groups (KIP-1071)
* ``offsets``: committed offsets of groups
* ``share_fetches``: consuming in share groups (KIP-932)
* ``share_state``: states of share partitions (KIP-932), between brokers
* ``inter_broker``: messages between brokers

Without an API of their own:

* ``partitions``: structs of several families
* ``consumer_protocol``: subscriptions and assignments in JoinGroup and SyncGroup
* ``group_log``: records of ``__consumer_offsets``
* ``streams_group_log``: records of streams groups in it
* ``transaction_log``: records of ``__transaction_state``
* ``share_state_log``: records of ``__share_group_state``
* ``remote_log``: records of ``__remote_log_metadata``

A new family is a new module here (``docs/howto/add-an-api.rst``): the register finds it by its declarations. A module
is imported when one of its APIs is first asked for: declaring all of them at once costs a part of a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from attrs import frozen

from logbus.late_imports import import_late
from logbus.wire.declaration import SPEC_ATTRIBUTE, MessageSpec, SchemaError, message_spec
from logbus.wire.kafka_releases import KAFKA_API_NAMES
from logbus.wire.version_range import VersionRange

__all__ = ["Api", "api", "api_keys", "api_name"]

_REQUEST = re.compile(r"^@message\(\s*(\d+)\b[^@]*?^class (\w+)Request\b", re.MULTILINE)
"""The declaration of a request."""


@frozen
class Api:
    """
    One API: its messages and their supported versions.

    :ivar flexible: versions with compact lengths, tags, and (except for ApiVersions responses) flexible headers.
    """

    key: int
    name: str
    request: type[Any]
    response: type[Any]
    versions: VersionRange
    flexible: VersionRange


@cache
def api(key: int) -> Api:
    """
    The API with Kafka's API key ``key``; its family of messages is imported on first use.

    :raises LookupError: it has no messages here.
    :raises SchemaError: it has no response.
    """
    if key not in _requests():
        raise LookupError(f"there are no messages for the API {key} ({KAFKA_API_NAMES.get(key, 'unknown')})")
    family, name = _requests()[key]
    module = import_late(family)
    request = getattr(module, f"{name}Request")
    response = getattr(module, f"{name}Response", None)
    if response is None:
        raise SchemaError(f"{family} has no {name}Response")
    spec = message_spec(request)
    return Api(key, name, request, response, spec.versions, spec.flexible)


def api_keys() -> frozenset[int]:
    """The keys of the APIs that have messages here."""
    return frozenset(_requests())


def api_name(key: int) -> str:
    """The name of an API, for logs and metrics; its key if it is unknown."""
    if key in KAFKA_API_NAMES:
        return KAFKA_API_NAMES[key]
    return _requests()[key][1] if key in _requests() else str(key)


@cache
def _requests() -> Mapping[int, tuple[str, str]]:
    """
    The module and the name of each API, by key.

    :raises SchemaError: two modules have messages of the same API.
    :raises ImportError: the modules cannot be listed now, which ``iter_modules`` does not say: it finds none.
    """
    found: dict[int, tuple[str, str]] = {}
    for module in iter_modules(__path__, f"{__name__}."):
        for key, name in _requests_in(module.name):
            if key in found:
                raise SchemaError(f"the API {key} has messages in {found[key][0]} and in {module.name}")
            found[key] = (module.name, name)
    if not found:
        raise ImportError(f"the modules in {', '.join(__path__)} cannot be listed", name=__name__)
    return found


def _requests_in(module: str) -> Iterator[tuple[int, str]]:
    """The requests that a module declares: from its source, or without one by importing it."""
    spec = find_spec(module)
    source = Path(spec.origin) if spec is not None and spec.origin is not None else Path()
    if source.suffix == ".py" and source.is_file():
        for key, name in _REQUEST.findall(source.read_text("utf-8")):
            yield int(key), name
        return
    for value in vars(import_module(module)).values():
        declared = getattr(value, SPEC_ATTRIBUTE, None)
        if isinstance(declared, MessageSpec) and declared.kind == "request" and declared.api_key is not None:
            yield declared.api_key, declared.cls.__name__.removesuffix("Request")
