"""The quota of a user and client id, by Kafka's precedence (Kafka: DefaultQuotaCallback). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import define, field, frozen

Entity: TypeAlias = frozenset[tuple[str, str | None]]
"""Names by type (``user``, ``client-id``); None for the default."""

UNLIMITED: float = 2**63 - 1
"""A quota from which on there is no limit, as tools write it: Kafka's Long.MAX_VALUE, or Double.MAX_VALUE."""

MOST_FOUND = 10_000
"""Clients whose quotas are remembered; beyond that, they are looked up again."""

LONGEST_NAME = 200
"""Characters of a client id that tell clients apart; its length is up to the client, and names are kept in memory."""

_USER, _CLIENT = "user", "client-id"


@frozen
class Quota:
    """
    A quota that applies to a client.

    :ivar shared_by: those who share it: a user, a client id, or both.
    """

    value: float
    shared_by: tuple[str | None, str | None]


@define(eq=False)
class QuotaTable:
    """
    Quotas of one type, by entity.

    :param default: of clients without another; :data:`UNLIMITED` or None: they have no limit.
    :ivar is_empty: whether nobody has a limit.
    """

    default: float | None = None
    is_empty: bool = field(init=False)
    _by_entity: dict[Entity, float] = field(factory=dict, init=False)
    # The number of entities with a limit.
    _limits: int = field(default=0, init=False)
    # What was found since the last change.
    _found: dict[tuple[str, str], Quota | None] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        if self.default is not None and self.default >= UNLIMITED:
            self.default = None
        self.is_empty = self.default is None

    def set(self, entity: Mapping[str, str | None], value: float | None) -> None:
        """Set the quota of an entity, or remove it. One without a limit still precedes others that have one."""
        key = frozenset(entity.items())
        before = self._by_entity.pop(key, None)
        if value is not None:
            self._by_entity[key] = value
        self._limits += _is_limit(value) - _is_limit(before)
        self.is_empty = self.default is None and not self._limits
        self._found.clear()

    def find(self, user: str, client_id: str) -> Quota | None:
        """The quota of a client; None: it has none."""
        client, found = (user, client_id), self._found
        try:
            return found[client]
        except KeyError:
            quota = self._find(user, client_id)
            if len(client_id) <= LONGEST_NAME:
                if len(found) >= MOST_FOUND:
                    found.clear()
                found[client] = quota
            return quota

    def _find(self, user: str, client_id: str) -> Quota | None:
        name = client_id[:LONGEST_NAME]
        both, of_user, of_client = (user, name), (user, None), (None, name)
        for names, shared_by in (
            (((_USER, user), (_CLIENT, client_id)), both),
            (((_USER, user), (_CLIENT, None)), both),
            (((_USER, user),), of_user),
            (((_USER, None), (_CLIENT, client_id)), both),
            (((_USER, None), (_CLIENT, None)), both),
            (((_USER, None),), of_user),
            (((_CLIENT, client_id),), of_client),
            (((_CLIENT, None),), of_client),
        ):
            value = self._by_entity.get(frozenset(names))
            if value is not None:
                return Quota(value, shared_by) if _is_limit(value) else None
        return None if self.default is None else Quota(self.default, of_client)


def _is_limit(value: float | None) -> bool:
    return value is not None and value < UNLIMITED
