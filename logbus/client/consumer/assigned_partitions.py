"""
The assigned partitions: their positions, and what was fetched of them and is not delivered yet (Kafka:
SubscriptionState). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from logbus.client.consumer.consumer_record import Fetched
from logbus.client.consumer.fetch_buffer import BufferedFetch, FetchBuffer, PartitionProblem
from logbus.client.consumer.partition_position import PartitionErrors, PartitionPosition, Position
from logbus.errors import LogbusError
from logbus.model import NO_EPOCH, TopicPartition

_SHOWN = 10
"""The number of assigned partitions in an error."""


class NotAssigned(LogbusError, KeyError):
    """A partition is not, or not yet, or no more, assigned to the consumer; the message has those that are."""

    __str__ = Exception.__str__


class _Positions(dict[TopicPartition, PartitionPosition]):
    def __missing__(self, partition: TopicPartition) -> PartitionPosition:
        names = [str(each) for each in sorted(self)]
        has = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        raise NotAssigned(f"{partition} is not assigned to this consumer, which has {has or 'no partitions (yet)'}")


class AssignedPartitions:
    """
    Positions and buffered data by partition; methods raise :class:`NotAssigned` for one that is not assigned.

    :param queue_bytes: the size of the buffer.
    """

    def __init__(self, queue_bytes: int) -> None:
        self._queue_bytes = queue_bytes
        self._positions = _Positions()
        self._buffer = FetchBuffer()

    def __iter__(self) -> Iterator[PartitionPosition]:
        """The positions; those of which data came last are last."""
        return iter(self._positions.values())

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return frozenset(self._positions)

    # Assignment and positions.

    def add(self, positions: Mapping[TopicPartition, Position], epochs: Mapping[TopicPartition, int] = {}) -> None:
        """Assign partitions, at these positions; see :meth:`.Fetcher.add`."""
        for partition, position in positions.items():
            self._buffer.drop(partition)
            held = self._positions.setdefault(partition, PartitionPosition(partition))
            held.move_to(position, epochs.get(partition, NO_EPOCH))

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions and their buffered data, if they are assigned."""
        for partition in partitions:
            if self._positions.pop(partition, None) is not None:
                self._buffer.resume(partition)
                self._buffer.drop(partition)

    def seek(self, partition: TopicPartition, position: Position, epoch: int = NO_EPOCH) -> None:
        """Move to another position of a partition, and drop its buffered data."""
        self._positions[partition].move_to(position, epoch)
        self._buffer.drop(partition)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver and fetch nothing of these. Buffered data is kept if there is not much of it."""
        for partition in partitions:
            self._positions[partition].paused = True
            self._buffer.pause(partition)
        self.make_room()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch and deliver these again."""
        for partition in partitions:
            self._positions[partition].paused = False
            self._buffer.resume(partition)

    def paused(self) -> frozenset[TopicPartition]:
        """The paused partitions."""
        return frozenset(each.partition for each in self if each.paused)

    def position(self, partition: TopicPartition) -> int | None:
        """The offset after the last record taken; None while it is being looked up."""
        position = self._positions[partition]
        return None if position.wanted is not None and not self._buffer.holds(partition) else position.delivered

    def epoch(self, partition: TopicPartition) -> int:
        """The leader epoch of the last record taken, −1 if it is not known."""
        return self._positions[partition].delivered_epoch

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """The end of the partition for consumers, as of the last fetch; None before the first one."""
        return self._positions[partition].high_watermark

    def reading(self, partition: TopicPartition) -> PartitionPosition:
        """A token for :meth:`is_reading`."""
        return self._positions[partition]

    def is_reading(self, position: PartitionPosition) -> bool:
        """Whether a partition has been assigned without interruption since the token was taken."""
        return self._positions.get(position.partition) is position

    # Fetched data.

    @property
    def has_data(self) -> bool:
        """Whether there is something to take."""
        return bool(self._buffer)

    @property
    def has_room(self) -> bool:
        """Whether half of the buffer is free."""
        return self._buffer.size < self._queue_bytes // 2

    def size_of(self, partition: TopicPartition) -> int:
        """Bytes buffered of a partition."""
        return self._buffer.size_of(partition)

    @property
    def next(self) -> PartitionPosition:
        """The position of the partition whose turn it is."""
        return self._positions[self._buffer.next]

    def take(self) -> Fetched:
        """
        Take records of the partition whose turn it is.

        :raises LogbusError: its error; it is fetched again then.
        """
        position = self.next
        try:
            fetched = self._buffer.take()
        except LogbusError:
            position.refetch()
            position.has_error = False
            raise
        position.delivered = fetched.next_offset
        if fetched.epoch != NO_EPOCH:
            position.delivered_epoch = fetched.epoch
        return fetched

    def put(self, partition: TopicPartition, fetch: BufferedFetch) -> None:
        """Put fetched data behind what is held of a partition."""
        self._buffer.put(partition, fetch)
        # Brokers fill a response in the order of partitions, so rotate them.
        self._positions[partition] = self._positions.pop(partition)

    def put_errors(self, errors: PartitionErrors) -> None:
        """Have errors of partitions raised when their turn comes."""
        for position, error in errors:
            if self.is_reading(position) and not position.has_error:
                position.has_error = True
                self._buffer.put(position.partition, PartitionProblem(error))

    def located(self, positions: Iterable[PartitionPosition]) -> None:
        """Note that the offsets of positions were looked up."""
        for position in positions:
            if not self._buffer.holds(position.partition):
                position.delivered, position.delivered_epoch = position.offset, NO_EPOCH

    def drop(self, partition: TopicPartition) -> None:
        """Drop the buffered data of a partition."""
        self._buffer.drop(partition)

    def make_room(self) -> None:
        """
        Drop data of paused partitions if it takes too much of the buffer; it is fetched again after they are resumed.
        """
        for partition in self._buffer.paused():
            if self._buffer.paused_size <= self._queue_bytes // 4:
                return
            self._buffer.drop(partition)
            position = self._positions[partition]
            position.refetch()
            position.has_error = False
