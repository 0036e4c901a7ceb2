"""
Writes the name of a certificate's subject as Kafka does: RFC 2253, in the way of Java's ``X500Principal.getName()``.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_STRINGS = frozenset({12, 19, 20, 22, 27, 28, 30})
"""Tags of the string types: UTF8, Printable, T61, IA5, General, Universal, BMP."""

_ESCAPED = frozenset(',=+<>#;"\\')


def distinguished_name(name: bytes) -> str:
    """
    Return the text of a name, such as ``CN=alice,OU=x,O=y,C=CZ``: the last part of the name first.

    :param name: an X.501 name in DER, as by ``certificate.subject.public_bytes()``.
    :raises ValueError: it is not one.
    """
    ((_, parts),) = _elements(name)
    return ",".join(reversed(["+".join(_attribute(one) for _, one in _elements(part)) for _, part in _elements(parts)]))


def _attribute(encoded: bytes) -> str:
    """Write one attribute: its type's keyword with its text, or the type's number with the value in hex."""
    (_, kind), (tag, value) = _elements(encoded)
    number = _object_identifier(kind)
    keyword = _KEYWORDS.get(number)
    if keyword is not None and tag in _STRINGS:
        try:
            return f"{keyword}={_escaped(value.decode())}"
        except UnicodeDecodeError:
            pass  # Java replaces such bytes, which would give two users one name
    _, (_, _, begin, end) = _bounds(encoded)
    return f"{keyword or number}=#{encoded[begin:end].hex()}"


def _escaped(text: str) -> str:
    core = text.strip(" \r")
    start = len(text) - len(text.lstrip(" \r")) if core else 0
    before, after = text[:start], text[start + len(core) :]
    escaped = "".join("\\" + c if c in _ESCAPED else "\\00" if c == "\0" else c for c in core)
    return "".join("\\" + c for c in before) + escaped + "".join("\\" + c for c in after)


def _object_identifier(encoded: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in encoded:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _elements(encoded: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each element of a DER sequence's content."""
    for tag, start, _, end in _bounds(encoded):
        yield tag, encoded[start:end]


def _bounds(encoded: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield the tag of each element, where its content starts, where it begins itself, and where both end."""
    at = 0
    while at < len(encoded):
        begin = at
        if at + 2 > len(encoded):
            raise ValueError("a DER element is cut off")
        tag, length = encoded[at], encoded[at + 1]
        at += 2
        if length & 0x80:
            wide = length & 0x7F
            length = int.from_bytes(encoded[at : at + wide])
            at += wide
        if at + length > len(encoded):
            raise ValueError("a DER element is cut off")
        yield tag, at, begin, at + length
        at += length
