"""The options of a producer, checked (Kafka: ProducerConfig)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Literal, TypeAlias, TypedDict

from attrs import field, frozen
from attrs.validators import optional

from logbus.client.interceptors import ProducerInterceptor
from logbus.client.producer.partitioner import Partitioner
from logbus.client.serializers import Serializer
from logbus.client.validators import MAX_INT32, InvalidOption, checked, flag, integer, seconds, shown, text
from logbus.errors import ConfigError
from logbus.records.compression import Codec, CodecName, codec_named, compress

Acks: TypeAlias = Literal[-1, 0, 1, "all", "-1", "0", "1"]

_ACKS = {-1: -1, 0: 0, 1: 1, "all": -1, "-1": -1, "0": 0, "1": 1}


def _acks(acks: object) -> int:
    if isinstance(acks, bool) or not isinstance(acks, (int, str)) or acks not in _ACKS:
        raise InvalidOption(f"acks is {shown(acks)}; it can be -1 (all), 0 or 1")
    return _ACKS[acks]


class ProducerArguments(TypedDict, total=False):
    """Options of :class:`~logbus.client.producer.producer.Producer`, as they are given."""

    wall_clock: Callable[[], float] | None
    random: Random | None
    acks: Acks
    codec: Codec | CodecName
    level: int | None
    batch_bytes: int
    linger: float
    delivery_timeout: float
    request_timeout: float
    request_bytes: int
    buffer_bytes: int
    create_topics: bool
    metadata_max_age: float
    partitioner: Partitioner | None
    enable_idempotence: bool | None
    transactional_id: str | None
    transaction_timeout: float
    key_serializer: Serializer | None
    value_serializer: Serializer | None
    interceptors: Sequence[ProducerInterceptor]


@frozen(kw_only=True)
class ProducerOptions:
    """Parameters of :class:`~logbus.client.producer.producer.Producer`, by the same names."""

    acks: int = field(converter=_acks)
    codec: Codec
    level: int | None
    batch_bytes: int = field(validator=checked(integer, least=1))
    linger: float = field(validator=checked(seconds))
    delivery_timeout: float = field(validator=checked(seconds, positive=True))
    request_timeout: float = field(validator=checked(seconds, positive=True, is_sent=True))
    request_bytes: int = field(validator=checked(integer, least=1))
    buffer_bytes: int = field(validator=checked(integer, least=1))
    create_topics: bool = field(validator=checked(flag))
    metadata_max_age: float = field(validator=checked(seconds, positive=True))
    enable_idempotence: bool | None = field(validator=optional(checked(flag)))
    transactional_id: str | None = field(validator=checked(text, optional=True))
    transaction_timeout: float = field(validator=checked(seconds, positive=True, is_sent=True))

    @property
    def is_idempotent(self) -> bool | None:
        """Whether batches get sequence numbers; None: if brokers support that."""
        return self.enable_idempotence if self.acks == -1 else False

    def __attrs_post_init__(self) -> None:
        if self.acks != -1 and (self.enable_idempotence or self.transactional_id is not None):
            raise InvalidOption(f"acks is {self.acks}; idempotence and transactions take -1 (all)")
        if self.transactional_id is not None and self.enable_idempotence is False:
            raise InvalidOption("a transactional id takes idempotence")


def codec_of(codec: object, level: object) -> Codec:
    """
    The codec for a name, or the given codec.

    :raises InvalidOption: there is no such codec, or it has no such level.
    """
    found = codec
    try:
        if isinstance(codec, str):
            found = codec_named(codec)
        if not isinstance(found, Codec):
            raise InvalidOption(f"codec is {shown(codec)}; it can be {', '.join(each.name.lower() for each in Codec)}")
        if level is not None:
            integer("level", level, -MAX_INT32)
            compress(found, b"logbus", level)  # type: ignore[arg-type]
    except InvalidOption:
        raise
    except ConfigError as e:
        raise InvalidOption(f"codec: {e}") from e
    except Exception as e:
        raise InvalidOption(f"level is {shown(level)}, which codec {shown(codec)} does not have: {e}") from e
    return found
