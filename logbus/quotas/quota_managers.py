"""The managers of all kinds of quotas of clients (Kafka: QuotaFactory.QuotaManagers). Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from attrs import define, field

from logbus.quotas.client_quota_manager import ClientQuotaManager
from logbus.quotas.quota_table import QuotaTable

if TYPE_CHECKING:
    from collections.abc import Iterable

PRODUCE, FETCH, REQUEST, CONTROLLER_MUTATION = "produce", "fetch", "request", "controller_mutation"
KINDS = (PRODUCE, FETCH, REQUEST, CONTROLLER_MUTATION)


def _unlimited() -> ClientQuotaManager:
    return ClientQuotaManager(QuotaTable(), time.monotonic)


@define(eq=False)
class QuotaManagers:
    """
    The quotas of users and client ids.

    :ivar produce: of the bytes of Produce requests; ``fetch``: of the bytes in responses to Fetch.
    :ivar request: of processor time, in per cent of one processor's second: a broker serves requests in one thread, so
        100 is all that there is.
    :ivar controller_mutation: of the partitions that are created and deleted: asked by the controller.
    :ivar processor_seconds: reads the time that this thread has had of its processor.
    :ivar wall_seconds: reads a clock that is cheaper to read.
    :ivar is_active: whether anybody has a quota of any kind: while nobody has, requests are not looked at.
    """

    produce: ClientQuotaManager = field(factory=_unlimited)
    fetch: ClientQuotaManager = field(factory=_unlimited)
    request: ClientQuotaManager = field(factory=_unlimited)
    controller_mutation: ClientQuotaManager = field(factory=_unlimited)
    processor_seconds: Callable[[], float] = time.thread_time
    wall_seconds: Callable[[], float] = time.perf_counter
    is_active: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._update_is_active()

    def set(self, entity: Mapping[str, str | None], quotas: Mapping[str, float]) -> None:
        """
        Set the quotas of an entity, in force from now on.

        :param quotas: all that it has, by Kafka's names, such as ``producer_byte_rate``.
        """
        for name, table in self._tables():
            table.set(entity, quotas.get(name))
        self._update_is_active()

    def _tables(self) -> Iterable[tuple[str, QuotaTable]]:
        return (
            ("producer_byte_rate", self.produce.quotas),
            ("consumer_byte_rate", self.fetch.quotas),
            ("request_percentage", self.request.quotas),
            ("controller_mutation_rate", self.controller_mutation.quotas),
        )

    def _update_is_active(self) -> None:
        self.is_active = not all(table.is_empty for _, table in self._tables())
