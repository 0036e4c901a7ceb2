"""
The public interface of message schemas: declare messages once for all versions, encode and decode them by compiled
code.

.. code-block:: python

    request, end = decode(FetchRequest, 12, buf, pos)
    request.topics[0].partitions[0].fetch_offset      # mypy knows this is an int
    parts = encode(FetchResponse(responses=[...]), 12)

Each (message, version, direction) is compiled on first use to one function, and kept. The modules:
:mod:`~logbus.wire.declaration` (declarations), :mod:`~logbus.wire.layout` (their meaning in one version),
:mod:`~logbus.wire.decoder_codegen` and :mod:`~logbus.wire.encoder_codegen` (the functions),
:mod:`~logbus.wire.decoder_runtime` and :mod:`~logbus.wire.encoder_runtime` (helpers that these call).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import Struct
from typing import Any, Protocol, TypeVar

from logbus.errors import DecodeError
from logbus.records.file_slice import Parts, joined
from logbus.wire.declaration import field, message, message_spec, struct
from logbus.wire.decoder_codegen import generate_decoder
from logbus.wire.decoder_runtime import Buffer
from logbus.wire.element_budget import element_budget
from logbus.wire.encoder_codegen import generate_encoder
from logbus.wire.encoder_runtime import EncodeError
from logbus.wire.message_class import replaced
from logbus.wire.wire_types import (
    ZERO_UUID,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    StoredRecords,
    String,
    Uint16,
    Uint32,
    Uuid,
)

__all__ = [
    # Declaring
    "field",
    "message",
    "struct",
    # Wire types
    "Bool",
    "Bytes",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Records",
    "StoredRecords",
    "String",
    "Uint16",
    "Uint32",
    "Uuid",
    "ZERO_UUID",
    # Encoding and decoding
    "EncodeError",
    "Steps",
    "decode",
    "decode_versioned",
    "decoder",
    "element_budget",
    "encode",
    "encode_versioned",
    "encoder",
    "incremental_decoder",
    "incremental_encoder",
    # Messages
    "replaced",
    # What was declared
    "message_spec",
]

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)
M_contra = TypeVar("M_contra", contravariant=True)
Steps = Generator[None, None, M]
"""Work in small steps; the generator returns the result."""

_VERSION = Struct(">h")


class Decoder(Protocol[M_co]):
    """
    Decodes one version of one message.

    Called with a buffer, the position of the message in it, and the upper bound of elements (default: as
    :func:`~logbus.wire.element_budget.element_budget` allows for the rest of the buffer). Returns the message and the
        position after it; bytes that follow are the caller's business. Records are memoryviews into the buffer.

    Raises only :class:`~logbus.errors.DecodeError`, whatever the bytes are.
    """

    def __call__(self, buf: Buffer, pos: int = 0, budget: int | None = None, /) -> tuple[M_co, int]: ...


class Encoder(Protocol[M_contra]):
    """
    Encodes one version of one message, as parts to be sent in order: one ``bytes`` if there are no slices of files.

    Raises :class:`EncodeError` if the version cannot express a value.
    """

    def __call__(self, message: M_contra, /) -> Parts: ...


def decoder(cls: type[M], version: int) -> Decoder[M]:
    """
    The compiled decoder of one version of a message.

    :raises SchemaError: there is no such version.
    """
    return generate_decoder(message_spec(cls), version)


def encoder(cls: type[M], version: int) -> Encoder[M]:
    """
    The compiled encoder of one version of a message.

    :raises SchemaError: there is no such version.
    """
    return generate_encoder(message_spec(cls), version)


def incremental_decoder(cls: type[M], version: int) -> Callable[[Buffer, int, int], Steps[tuple[M, int]]]:
    """
    The compiled decoder of one version of a message, as a generator: see :class:`Decoder` for what it returns.

    It yields after every :data:`~logbus.wire.codegen.ELEMENTS_PER_STEP` array elements, so that other requests can be
    served while a long message is decoded. The buffer must not change before it has returned.

    :raises SchemaError: there is no such version.
    """
    return generate_decoder(message_spec(cls), version, incremental=True)


def incremental_encoder(cls: type[M], version: int) -> Callable[[M], Steps[Parts]]:
    """
    The compiled encoder of one version of a message, as a generator: see :class:`Encoder` for what it returns.

    It yields as an :func:`incremental_decoder` does. The message must not change before it has returned.

    :raises SchemaError: there is no such version.
    """
    return generate_encoder(message_spec(cls), version, incremental=True)


def decode(cls: type[M], version: int, buf: Buffer, pos: int = 0, budget: int | None = None) -> tuple[M, int]:
    """
    Decode one version of a message: see :class:`Decoder`.

    :raises DecodeError: the bytes are not such a message.
    :raises SchemaError: there is no such version.
    """
    return decoder(cls, version)(buf, pos, budget)


def encode(message: Any, version: int) -> Parts:
    """
    Encode one version of a message: see :class:`Encoder`.

    :raises EncodeError: the version cannot express a value.
    :raises SchemaError: there is no such version.
    """
    return encoder(type(message), version)(message)


def encode_versioned(message: Any, version: int) -> bytes:
    """
    Encode data that begins with its own version, in two bytes: records of internal topics, consumer protocol.

    :raises EncodeError: the version cannot express a value.
    """
    return _VERSION.pack(version) + joined(encode(message, version))


def decode_versioned(cls: type[M], buf: Buffer) -> tuple[M, int]:
    """
    Decode data that begins with its own version.

    :returns: the message and its version. Bytes may follow the message, in data of later versions.
    :raises DecodeError: the version is unknown, or the bytes are not such a message.
    """
    if len(buf) < _VERSION.size:
        raise DecodeError(f"{cls.__name__} has {len(buf)} bytes; its version alone has {_VERSION.size}")
    (version,) = _VERSION.unpack_from(buf)
    known = message_spec(cls).versions
    if not known.includes(version):
        raise DecodeError(f"{cls.__name__} has version {version}; we know {known}")
    message, _ = decode(cls, version, buf, _VERSION.size)
    return message, version
