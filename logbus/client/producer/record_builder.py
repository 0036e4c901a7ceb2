"""
Prepares a record for a batch: interceptors see it as it was given, then serializers turn its key and value into bytes.
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from logbus.client.interceptors import ProducerInterceptors
from logbus.client.producer.producer_record import ProducerRecord
from logbus.client.serializers import SerializationError, Serializer


@frozen
class RecordBuilder:
    """
    Calls a producer's interceptors and serializers.

    :ivar key: serializes keys; None: they are bytes.
    :ivar value: serializes values.
    """

    interceptors: ProducerInterceptors = field(factory=ProducerInterceptors)
    key: Serializer | None = None
    value: Serializer | None = None

    def __bool__(self) -> bool:
        """False if there are neither interceptors nor serializers, so that this step can be skipped."""
        return bool(self.interceptors) or self.key is not None or self.value is not None

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """
        The record to queue.

        :raise RecordDropped: an interceptor dropped it.
        :raise SerializationError: a key or value cannot be serialized; the message names the topic.
        """
        changed = self.interceptors.on_send(record)
        if self.key is not None:
            changed = changed._replace(key=_serialized(self.key, changed.topic, changed.key, "key"))
        if self.value is not None:
            changed = changed._replace(value=_serialized(self.value, changed.topic, changed.value, "value"))
        return changed


def _serialized(serializer: Serializer, topic: str, value: Any, what: str) -> bytes | None:
    try:
        data = serializer(topic, value)
    except SerializationError:
        raise
    except Exception as e:
        # A serializer written by an application may raise anything.
        raise SerializationError(f"topic {topic!r}: the {what} cannot be serialized: {e!r:.300}") from e
    if data is not None and not isinstance(data, bytes):
        raise SerializationError(f"topic {topic!r}: the {what}'s serializer returned {type(data).__name__}, not bytes")
    return data
