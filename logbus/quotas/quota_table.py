"""The quota of a user and client id, by Kafka's precedence (Kafka: DefaultQuotaCallback). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import define, field, frozen

Entity: TypeAlias = frozenset[tuple[str, str | None]]
"""Names by type (``user``, ``client-id``); None for the default."""

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

    :param default: of clients without another; None: they have no limit.
    """

    default: float | None = None
    _by_entity: dict[Entity, float] = field(factory=dict, init=False)

    @property
    def is_empty(self) -> bool:
        """Whether nobody has a quota."""
        return self.default is None and not self._by_entity

    def set(self, entity: Mapping[str, str | None], value: float | None) -> None:
        """Set the quota of an entity, or remove it."""
        key = frozenset(entity.items())
        if value is None:
            self._by_entity.pop(key, None)
        else:
            self._by_entity[key] = value

    def find(self, user: str, client_id: str) -> Quota | None:
        """The quota of a client; None: it has none."""
        both, of_user, of_client = (user, client_id), (user, None), (None, client_id)
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
                return Quota(value, shared_by)
        return None if self.default is None else Quota(self.default, of_client)
