"""
Parses ``server.properties``, in the syntax of ``java.util.Properties.load``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from logbus.errors import ConfigError

_NEWLINE = re.compile(r"\r\n|\n|\r")
_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    r"""
    Parse ``key=value`` lines.

    ``#`` and ``!`` begin comment lines; a line that ends in a backslash continues on the next, without its indentation;
    the key ends at the first ``=``, ``:`` or blank; ``\t \n \r \f \uXXXX`` and a backslash before any other character
    are escapes. The last value of a repeated key counts. Values keep trailing blanks, as in Java; parsing a value trims
    it.

    :raises ConfigError: an escape is broken; the line is named.
    """
    return {key: value for _, key, value in numbered_properties(text)}


def numbered_properties(text: str) -> Iterator[tuple[int, str, str]]:
    """
    Yield the line number (from 1), key and value of each setting, in order.

    :raises ConfigError: an escape is broken; the line is named.
    """
    for number, line in _logical_lines(text):
        end = _key_end(line)
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        yield number, _unescape(line[:end], number), _unescape(rest, number)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines that are not blank or comments, with continuations joined and the number of their first line."""
    held: list[str] = []
    first = 0
    for number, natural in enumerate(_NEWLINE.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not held:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            held.append(line[:-1])
            continue
        yield first, "".join([*held, line])
        held = []
    if held:
        yield first, "".join(held)


def _key_end(line: str) -> int:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    return min(position, len(line))


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            out.append(character)
        elif position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                digits = text[position : position + 4]
                if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                    raise ConfigError(f"line {line}: \\u{digits} is not an escape; four hexadecimal digits follow \\u")
                out.append(chr(int(digits, 16)))
                position += 4
            else:
                out.append(_ESCAPES.get(character, character))
    return "".join(out)
