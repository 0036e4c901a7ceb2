"""The record that a line of input stands for, by the properties of Kafka's LineMessageReader. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from logbus.cli.input_records import InputRecord
from logbus.cli.kafka_scripts.option_parser import UsageError

PROPERTIES = (
    "parse.key",
    "parse.headers",
    "key.separator",
    "headers.delimiter",
    "headers.separator",
    "headers.key.separator",
    "ignore.error",
    "null.marker",
)

CLASS = "org.apache.kafka.tools.LineMessageReader"


@frozen
class LineMessageReader:
    """
    Reads lines: headers, if they are expected, then the key, if it is, then the value.

    :ivar ignore_error: a line without a separator is a value.
    :ivar null_marker: the text that stands for null.
    """

    parse_key: bool = False
    parse_headers: bool = False
    key_separator: bytes = b"\t"
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    ignore_error: bool = False
    null_marker: bytes | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> LineMessageReader:
        """
        Read the properties of ``--reader-property``.

        :raise UsageError: one is not known, or separators are empty or the same.
        """
        unknown = sorted(properties.keys() - set(PROPERTIES))
        if unknown:
            raise UsageError(f"{unknown[0]} is not a property of the reader; there are {', '.join(PROPERTIES)}")
        given = {name.replace(".", "_"): value for name, value in properties.items()}
        flags = {
            name: value.strip().lower() == "true"
            for name, value in given.items()
            if name in ("parse_key", "parse_headers", "ignore_error")
        }
        texts = {name: value.encode(errors="surrogateescape") for name, value in given.items() if name not in flags}
        reader = cls(**{**texts, **flags})  # type: ignore[arg-type]
        for name in ("key_separator", "headers_delimiter", "headers_separator", "headers_key_separator"):
            if not getattr(reader, name):
                raise UsageError(f"{name.replace('_', '.')} is empty")
        if reader.parse_headers and reader.headers_delimiter == reader.headers_separator:
            raise UsageError("headers.delimiter and headers.separator may not be equal")
        if reader.parse_headers and reader.headers_separator == reader.headers_key_separator:
            raise UsageError("headers.separator and headers.key.separator may not be equal")
        if reader.parse_headers and reader.headers_delimiter == reader.headers_key_separator:
            raise UsageError("headers.delimiter and headers.key.separator may not be equal")
        return reader

    def record(self, line: bytes, number: int) -> InputRecord:
        """
        The record of a line.

        :param number: of the line, from 1, for errors.
        :raise ValueError: a separator is missing.
        """
        line = line.removesuffix(b"\r")
        headers: tuple[tuple[str, bytes | None], ...] = ()
        key, rest = None, line
        if self.parse_headers:
            text, rest = self._split(rest, self.headers_delimiter, "headers delimiter", line, number)
            if text is not None and text != self.null_marker:
                headers = tuple(self._header(pair, number) for pair in text.split(self.headers_separator) if text)
        if self.parse_key:
            key, rest = self._split(rest, self.key_separator, "key separator", line, number)
        return InputRecord(self._content(key), self._content(rest), headers)

    def _split(self, text: bytes, separator: bytes, what: str, line: bytes, number: int) -> tuple[bytes | None, bytes]:
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self.ignore_error:
            return None, text
        raise ValueError(f"No {what} found on line number {number}: '{_text(line)}'")

    def _header(self, pair: bytes, number: int) -> tuple[str, bytes | None]:
        name, found, value = pair.partition(self.headers_key_separator)
        if not found:
            if self.ignore_error:
                return _text(pair), None
            raise ValueError(f"No header key separator found in pair '{_text(pair)}' on line number {number}")
        if name == self.null_marker:
            raise ValueError(
                f"Header keys should not be equal to the null marker '{_text(name)}' as they can't be null"
            )
        return name.decode("utf-8", "surrogateescape"), self._content(value)

    def _content(self, text: bytes | None) -> bytes | None:
        return None if text == self.null_marker else text


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
