"""
Payloads: how records' values become columns; raw bytes, or JSON objects with a schema.

A payload adds to the source's rows the columns of the event, its time, and the reason why the value could not be read,
which is null if it could. :meth:`Payload.check` finds errors before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from attrs import evolve, frozen

from logbus.pipeline.error_text import short_message
from logbus.pipeline.errors import OptionError
from logbus.pipeline.payloads.ddl import EXAMPLE, fields_of
from logbus.pipeline.payloads.record_metadata import (
    COLUMNS,
    HEADERS,
    HEADERS_FIELD,
    METADATA,
    METADATA_FIELDS,
    RECORD_COLUMNS,
    check_metadata,
    check_taken,
    metadata_struct,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REASON = "_reason"
EVENT = "_event"
TIME = "_time"
_CORRUPT = "_corrupt"
_DAY = 86_400_000_000
"""Microseconds."""


class Payload(Protocol):
    """
    A format of values, and its parser.

    :ivar reason: the column that says why a value could not be read.
    :ivar time: the column with the event's time.
    """

    @property
    def reason(self) -> str: ...

    @property
    def time(self) -> str: ...

    def check(self) -> None:
        """
        Check what only a running Spark can check.

        :raise OptionError: the schema is invalid, or has a reserved name.
        """

    def parsed(self, rows: DataFrame) -> DataFrame:
        """The source's rows with the columns :attr:`reason` and :attr:`time`, and what :meth:`columns` needs."""

    def columns(self, rows: DataFrame) -> list[Any]:
        """The columns of the table."""

    @property
    def own_columns(self) -> Sequence[str]:
        """The columns of the event, if they are known before Spark runs."""

    def table_fields(self, headers: bool) -> Sequence[Mapping[str, Any]] | None:
        """
        The columns of a new table, as in Spark's JSON, with ``name`` and ``type``.

        :param headers: whether there are the records' headers.
        :returns: None: only Spark knows them.
        """

    @property
    def metadata(self) -> str:
        """How rows have the record's own columns: see :func:`.metadata_struct`."""

    def with_metadata(self, metadata: str) -> Payload:
        """
        The same payload with the record's own columns as a table has them.

        :raise OptionError: the event has a column of such a name.
        """


@frozen
class RawPayload:
    """Keys and values as bytes; the event's time is the record's."""

    reason = REASON
    time = "timestamp"
    own_columns = ()
    metadata = COLUMNS

    def table_fields(self, headers: bool) -> Sequence[Mapping[str, Any]]:
        """See :class:`Payload`."""
        own = [*METADATA_FIELDS, *([HEADERS_FIELD] if headers else [])]
        return [*own, {"name": "value", "type": "binary"}, {"name": "timestampType", "type": "integer"}]

    def with_metadata(self, metadata: str) -> RawPayload:
        """The same: there is no event whose names could be taken."""
        return self

    def check(self) -> None:
        """Does nothing."""

    def parsed(self, rows: DataFrame) -> DataFrame:
        """See :class:`Payload`."""
        from pyspark.sql import functions as f

        return rows.withColumn(REASON, f.lit(None).cast("string"))

    def columns(self, rows: DataFrame) -> list[Any]:
        """The record's columns, without those that the source of a job has besides."""
        own = {each["name"] for each in self.table_fields(headers=True)}
        return [name for name in rows.columns if name in own]


@frozen(kw_only=True)
class JsonPayload:
    """
    JSON objects, read with a schema: fields that are not in it are left out, and missing ones are null.

    :ivar schema: in Spark's DDL, such as ``user STRING, at TIMESTAMP``.
    :ivar event_time: the field with the event's time; "": the record's time.
    :ivar into: the name of one column for the whole event; "": a column for each field.
    :ivar metadata: how rows have the record's own columns: see :func:`.metadata_struct`.
    :raise OptionError: the schema is invalid, has a reserved name, or lacks the field ``event_time``.
    """

    schema: str
    event_time: str = ""
    into: str = ""
    metadata: str = ""
    reason = REASON
    time = TIME

    def __attrs_post_init__(self) -> None:
        if not self.schema.strip():
            raise OptionError(f"JSON needs a schema, such as {EXAMPLE}")
        if (fields := fields_of(self.schema)) is not None:
            check_names({"fields": fields}, self.event_time, self.into, self.metadata)

    def with_metadata(self, metadata: str) -> JsonPayload:
        """See :class:`Payload`."""
        return evolve(self, metadata=metadata)

    @property
    def own_columns(self) -> Sequence[str]:
        """See :class:`Payload`."""
        return [self.into] if self.into else [each["name"] for each in fields_of(self.schema) or ()]

    def table_fields(self, headers: bool) -> Sequence[Mapping[str, Any]] | None:
        """See :class:`Payload`."""
        fields = fields_of(self.schema)
        return None if fields is None else table_fields(fields, self.into, self.metadata, headers)

    def check(self) -> None:
        """See :class:`Payload`."""
        self._kind()

    def parsed(self, rows: DataFrame) -> DataFrame:
        """See :class:`Payload`."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import StringType, StructType

        kind = self._kind()
        wide = StructType([*kind.fields]).add(_CORRUPT, StringType())
        text = f.col("value").cast("string")
        options = {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": _CORRUPT,
            "allowSingleQuotes": "false",
            "allowNonNumericNumbers": "false",
            "timeZone": "UTC",
        }
        event = f.from_json(text, wide, options)
        rows = rows.withColumn("_read", event)
        names = [f.col(f"_read.{quoted_name(name)}").alias(name) for name in kind.names]
        time = f.col(f"_read.{quoted_path(self.event_time)}") if self.event_time else f.col("timestamp")
        time = instant(time, kind.jsonValue(), self.event_time)
        return (
            rows.withColumn(EVENT, f.struct(*names))
            .withColumn(TIME, time)
            .withColumn(
                REASON,
                f.when(f.col("value").isNull(), "there is no value")
                .when(~f.is_valid_utf8(f.col("value")), "the value is not UTF-8")
                .when(f.col("_read").isNull(), "the value is empty")
                .when(f.col(f"_read.{_CORRUPT}").isNotNull(), "the value is not JSON of the schema")
                .when(_is_followed(text), "something follows the JSON object")
                .when(f.col(TIME).isNull(), f"there is no time in {self.event_time!r}")
                .otherwise(f.lit(None).cast("string")),
            )
            .drop("_read")
        )

    def columns(self, rows: DataFrame) -> list[Any]:
        """See :class:`Payload`."""
        return event_columns(rows, self._kind().names, self.into, self.metadata)

    def _kind(self) -> Any:
        return event_type(self.schema, self.event_time, self.into, self.metadata)


def _is_followed(text: Any) -> Any:
    """
    Whether something follows the first object of a text, which ``from_json`` ignores.

    Only a text whose first closing brace is not its last character has to be parsed again to know, such as one with
    nested objects. In brackets the object must be the only element of an array. Text that closes the array itself,
    "{}]", is found by appending an element, which then does not count.
    """
    from pyspark.sql import functions as f

    is_alone = text.startswith("{") & (f.locate("}", text) == f.length(text))
    in_array = (_elements(text, "]") != 1) | (text.contains("]") & (_elements(text, ",0]") != 2))
    return f.when(is_alone, f.lit(False)).otherwise(in_array)


def _elements(text: Any, ending: str) -> Any:
    """The number of elements of the array that a text in brackets is; 0: it is not an array."""
    from pyspark.sql import functions as f

    return f.coalesce(f.json_array_length(f.concat(f.lit("["), text, f.lit(ending))), f.lit(0))


def quoted_path(path: str) -> str:
    """Quote a path of fields, such as ``page.time``, as a column's name."""
    return ".".join(map(quoted_name, path.split(".")))


def quoted_name(name: str) -> str:
    """Quote a name for SQL, whatever characters are in it."""
    return "`" + name.replace("`", "``") + "`"


def event_columns(rows: DataFrame, names: list[str], into: str, metadata: str = "") -> list[Any]:
    """The columns of a table of events."""
    from pyspark.sql import functions as f

    own: list[Any] = [each for each in (*METADATA, HEADERS) if each in rows.columns]
    if struct := metadata_struct([into] if into else names, metadata):
        own = [f.struct(*own).alias(struct)]
    if into:
        return [*own, f.col(EVENT).alias(into)]
    return [*own, *(f.col(f"{EVENT}.{quoted_name(name)}").alias(name) for name in names)]


def table_fields(
    fields: Sequence[Mapping[str, Any]], into: str, metadata: str, headers: bool
) -> Sequence[Mapping[str, Any]]:
    """What :func:`event_columns` makes of an event's fields, as in Spark's JSON."""
    own: list[Mapping[str, Any]] = [*METADATA_FIELDS, *([HEADERS_FIELD] if headers else [])]
    if struct := metadata_struct([into] if into else [each["name"] for each in fields], metadata):
        own = [{"name": struct, "type": {"type": "struct", "fields": own}}]
    return [*own, *([{"name": into, "type": {"type": "struct", "fields": fields}}] if into else fields)]


def instant(time: Column, schema: Mapping[str, Any], event_time: str) -> Column:
    """
    The event's time as a timestamp. A date, or a time without a zone, is UTC, whatever the session's time zone is; null
    if it is out of the range of timestamps.

    :param schema: of the event, as Spark's JSON, which has the field.
    :param event_time: its path; "": the record's time.
    """
    from pyspark.sql import functions as f

    kind = field_type(schema, event_time) if event_time else "timestamp"
    if kind == "timestamp":
        return time
    micros = f.try_multiply(f.unix_date(time.cast("date")).cast("long"), f.lit(_DAY))
    if kind == "timestamp_ntz":
        seconds = f.hour(time) * 3600 + f.minute(time) * 60
        micros += seconds.cast("long") * 1_000_000 + (f.date_part(f.lit("SECOND"), time) * 1_000_000).cast("long")
    return f.timestamp_micros(micros)


def raw_columns(rows: DataFrame) -> list[Any]:
    """The columns of a quarantined record, with the reason."""
    from pyspark.sql import functions as f

    own = [each for each in (*METADATA, "value", HEADERS) if each in rows.columns]
    return [*own, f.col(REASON).alias("reason")]


def event_type(schema: str, event_time: str, into: str, metadata: str = "") -> Any:
    """
    The Spark type of events.

    :raise OptionError: the schema is invalid, has a reserved name, or lacks the field ``event_time``.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        kind: Any = StructType.fromDDL(schema)
    except PySparkException as e:
        raise OptionError(f"{schema!r} is no schema such as {EXAMPLE}: {short_message(str(e))}") from e
    if not isinstance(kind, StructType):
        raise OptionError(f"{schema!r} is no schema such as {EXAMPLE}")
    check_names(kind.jsonValue(), event_time, into, metadata)
    return kind


def check_names(schema: Mapping[str, Any], event_time: str, into: str, metadata: str = "") -> None:
    """
    Check that an event's columns do not clash with the record's, and that the time is one of them.

    :param schema: Spark's JSON.
    :param metadata: how rows have the record's own columns: see :func:`.metadata_struct`.
    :raise OptionError: a name is reserved, or there is no such time field.
    """
    names = [each["name"] for each in schema["fields"]]
    if not names:
        raise OptionError("the schema has no field")
    check_metadata(metadata)
    columns = [into] if into else names
    if struct := metadata_struct(columns, metadata):
        check_taken(columns, [struct], "the column of the record's metadata (--metadata-as)", into)
    else:
        check_taken(columns, RECORD_COLUMNS, "one of the record's own columns", into)
    lower = [name.lower() for name in names]
    if twice := [name for name in names if lower.count(name.lower()) > 1 or name.lower() == _CORRUPT]:
        raise OptionError(
            f"the schema's field {twice[0]!r}: names must differ in more than case, and none is {_CORRUPT}"
        )
    if not event_time:
        return
    kind = field_type(schema, event_time)
    if kind is None:
        raise OptionError(f"the schema has no field {event_time!r} for the event's time")
    if kind not in ("timestamp", "timestamp_ntz", "date"):
        raise OptionError(f"the event's time {event_time!r} is of type {kind}; it must be a timestamp")


def field_type(schema: Mapping[str, Any], path: str) -> Any:
    """
    The type of a field, as in Spark's JSON; None: there is no such field.

    :param path: of fields, such as ``page.time``.
    """
    return type_at(schema, path.split("."))


def type_at(schema: Mapping[str, Any], names: Iterable[str], *, any_case: bool = False) -> Any:
    """
    The type of a field, as in Spark's JSON; None: there is no such field.

    :param names: of the field, behind those of the fields that it is in.
    :param any_case: names are the same in upper and lower case, as in SQL.
    """
    inner: Any = schema
    for name in names:
        fields = inner.get("fields", ()) if isinstance(inner, dict) else ()
        same = (each for each in fields if each["name"] == name or (any_case and each["name"].lower() == name.lower()))
        found = next(same, None)
        if found is None:
            return None
        inner = found["type"]
    return inner
