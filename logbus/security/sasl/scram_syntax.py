"""The messages of SCRAM (RFC 5802, section 7). Pure."""

from __future__ import annotations

import base64
import binascii
import re

from attrs import frozen

_PRINTABLE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_NAME = re.compile(r"(?:[^\0=,]|=2C|=3D)+")
_ATTRIBUTE = re.compile(r"([A-Za-z]+)=([^\0,]+)")


class ScramSyntaxError(Exception):
    """A message is none of SCRAM; the text says why, and quotes nothing of it."""


@frozen
class ClientFirst:
    """
    The client's first message.

    :ivar header: the header, which says that there is no channel binding.
    :ivar bare: the rest, which is signed.
    :ivar authzid: whom the client wants to act as; empty: the user.
    :ivar extensions: further attributes, such as ``tokenauth`` (KIP-48).
    """

    header: str
    bare: str
    authzid: str
    user: str
    nonce: str
    extensions: dict[str, str]

    @classmethod
    def parse(cls, data: bytes) -> ClientFirst:
        text = _decoded(data)
        parts = text.split(",", 2)
        if len(parts) < 3:
            raise ScramSyntaxError("the first message has no header")
        flag, authzid, bare = parts
        if flag.startswith("p="):
            raise ScramSyntaxError("the client asks for channel binding, which is not offered")
        if flag not in ("n", "y") or (authzid and not authzid.startswith("a=")):
            raise ScramSyntaxError("the first message's header is wrong")
        user, _, rest = bare.partition(",")
        nonce, *more = rest.split(",")
        if not user.startswith("n="):
            raise ScramSyntaxError("the first message does not begin with the user's name")
        if not nonce.startswith("r=") or not _PRINTABLE.fullmatch(nonce[2:]):
            raise ScramSyntaxError("the first message has no nonce")
        extensions = {}
        for part in more:
            match = _ATTRIBUTE.fullmatch(part)
            if match is None:
                raise ScramSyntaxError("the first message has an extension that is none")
            extensions[match[1]] = match[2]
        name = _unescaped(authzid[2:]) if authzid else ""
        return cls(f"{flag},{authzid},", bare, name, _unescaped(user[2:]), nonce[2:], extensions)


@frozen
class ServerFirst:
    """The server's first message."""

    text: str
    nonce: str
    salt: bytes
    iterations: int

    @classmethod
    def of(cls, nonce: str, salt: bytes, iterations: int) -> ServerFirst:
        return cls(f"r={nonce},s={base64_text(salt)},i={iterations}", nonce, salt, iterations)

    @classmethod
    def parse(cls, data: bytes) -> ServerFirst:
        text = _decoded(data)
        said = attributes(text)
        count = said.get("i", "")
        if not (count.isascii() and count.isdigit() and len(count) < 10):
            raise ScramSyntaxError("its first message has no number of iterations")
        return cls(text, said.get("r", ""), base64_bytes(said.get("s", "")), int(count))


@frozen
class ClientFinal:
    """The client's last message; ``unsigned``: the part before the proof."""

    unsigned: str
    binding: str
    nonce: str
    proof: bytes

    @classmethod
    def parse(cls, data: bytes) -> ClientFinal:
        unsigned, found, proof = _decoded(data).rpartition(",p=")
        said = attributes(unsigned)
        if not found or not unsigned.startswith("c=") or "r" not in said:
            raise ScramSyntaxError("the last message lacks channel binding, nonce or proof")
        return cls(unsigned, said["c"], said["r"], base64_bytes(proof))


def attributes(text: str) -> dict[str, str]:
    """Return the attributes of one letter."""
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}


def escaped(name: str) -> str:
    """Return a user's name as it is written in messages."""
    return name.replace("=", "=3D").replace(",", "=2C")


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def base64_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramSyntaxError("something is not base64") from None


def _unescaped(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ScramSyntaxError("the user's name is empty, or has characters that must be escaped")
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ScramSyntaxError("a message is not UTF-8") from None
