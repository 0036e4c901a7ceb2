"""Selects and decodes the records to print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from logbus.cli.record_filter import RecordFilter
from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.model import TopicPartition

if TYPE_CHECKING:
    from logbus.cli.registry_values import RegistryValues


@frozen
class Selection:
    """
    Selects records.

    :ivar wanted: which ones; None: all.
    :ivar values: decodes them first; None: they are not decoded.
    """

    wanted: RecordFilter | None = None
    values: RegistryValues | None = None

    async def __call__(self, partition: TopicPartition, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return those to print."""
        if self.values is not None:
            records = await self.values.decoded(records)
        if self.wanted is not None:
            records = [each for each in records if self.wanted(partition.partition, each)]
        return records


ALL = Selection()
"""All records, as they are."""
