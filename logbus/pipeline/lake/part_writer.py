"""
Writes a table's data files from Spark's tasks, directly to where they stay.

Each task writes Parquet files of unique names with Arrow, and returns for each its path, size and footer. Nothing is
renamed and no Hadoop committer is involved, so that any store will do: a file becomes part of a table by the commit
that names it. What an attempt wrote that failed, or that Spark did not count, is named by no commit; the table's own
cleaning deletes it.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from logbus.pipeline.blocking.patience import PATIENCE
from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.object_store import Store
from logbus.pipeline.lake.part_files import PartFile, check_parts
from logbus.pipeline.lake.store_patience import waiting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TARGET_BYTES = 128 << 20
"""Of a file."""

ROW_GROUP_BYTES = 32 << 20
"""Of rows in memory, before they are encoded and compressed. A task holds so many."""

COMPRESSIONS = ("zstd", "snappy")
FIELD_ID = b"PARQUET:field_id"
"""The metadata of an Arrow field that Parquet files keep as the column's id."""

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f" + "".join(map(chr, range(32))))
_LONGEST_NAME = 200
"""Bytes of a directory's name: file systems take 255."""

_UPLOAD = 10 << 20
"""Bytes a second: what a store should take of a file that it is sent."""

_RESULT = "path string, size long, records long, partition binary, footer binary"


@frozen(kw_only=True)
class PartWriter:
    """
    Writes rows to files of a table.

    :ivar store: the table's directory.
    :ivar below: a directory in it, such as ``data``; "": the table's own.
    :ivar directories: columns whose values become directories, ``column=value``.
    :ivar kept: whether the files have these columns as well.
    :ivar schema: the ``pyarrow.Schema`` of the files, to which rows are cast; its fields may have ids
        (:data:`FIELD_ID`). None: the rows' own.
    :ivar target_bytes: a file is ended when it is larger, so it can have a row group more.
    """

    store: Store
    below: str = ""
    directories: Sequence[str] = ()
    kept: bool = False
    schema: Any = None
    target_bytes: int = TARGET_BYTES
    row_group_bytes: int = ROW_GROUP_BYTES
    compression: str = "zstd"

    def __attrs_post_init__(self) -> None:
        if self.compression not in COMPRESSIONS:
            raise LakeError(f"compression is {self.compression!r}; it takes {' or '.join(COMPRESSIONS)}")

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Of a task, for ``mapInArrow``: write its rows, and yield a row for each file."""
        import pyarrow as pa

        if made := list(self.write(batches)):
            columns: list[list[Any]] = [
                [each.path for each in made],
                [each.size for each in made],
                [each.records for each in made],
                [_packed(each.partition) for each in made],
                [_serialized(each.footer) for each in made],
            ]
            kinds = (pa.string(), pa.int64(), pa.int64(), pa.binary(), pa.binary())
            names = ("path", "size", "records", "partition", "footer")
            yield pa.RecordBatch.from_arrays(list(map(pa.array, columns, kinds)), names=list(names))

    def write(self, batches: Iterable[Any]) -> Iterator[PartFile]:
        """
        Write rows, which come sorted by the directories: there is one open file at a time.

        :param batches: of ``pyarrow.RecordBatch``.
        """
        files = self.store.file_system()
        part: _Part | None = None
        try:
            for batch in batches:
                for values, rows in runs(batch, self.directories):
                    if part is not None and (part.is_full or part.values != values):
                        yield part.end()
                        part = None
                    if part is None:
                        part = _Part(self, files, values)
                    part.add(rows)
            if part is not None:
                yield part.end()
        except BaseException:
            if part is not None:
                part.give_up()
            raise


def write_parts(
    rows: DataFrame, writer: PartWriter, work: Callable[[Iterable[Any]], Iterator[Any]] | None = None
) -> list[PartFile]:
    """
    Write rows to files by Spark's tasks.

    The files of a local directory are on stable storage when this returns.

    :param rows: brought together and sorted by the writer's directories (:func:`.gathered`).
    :param work: makes the files from other rows than those to be written, and returns what the writer returns.
    :returns: the files of the attempts that Spark counted: each row is in one of them once.
    :raise LakeError: a file is not where this process looks for it.
    """
    _make_root(writer.store)
    task = work or writer
    names = rows.schema.names
    if any("." in name or "`" in name for name in names):
        # PySpark takes a dot for the way to a field of a struct.
        rows, task = rows.toDF(*(f"column{number}" for number in range(len(names)))), _Named(names, task)
    found = [
        PartFile(row["path"], row["size"], row["records"], _unpacked(row["partition"]), _footer(row["footer"]))
        for row in rows.mapInArrow(task, _RESULT).collect()
    ]
    check_parts(writer.store, found)
    return found


@frozen
class _Named:
    """Gives a task's rows their names."""

    names: Sequence[str]
    task: Callable[[Iterable[Any]], Iterator[Any]]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        return self.task(batch.rename_columns(list(self.names)) for batch in batches)


def _make_root(store: Store) -> None:
    if (root := store.local_root()) is not None:
        root.mkdir(parents=True, exist_ok=True)


@define
class _Part:
    """A file being written. Rows are kept until there are enough for a row group."""

    writer: PartWriter
    files: Any
    values: tuple[Any, ...]
    path: str = field(init=False)
    _schema: Any = field(default=None, init=False)
    _sink: Any = field(default=None, init=False)
    _parquet: Any = field(default=None, init=False)
    _footers: list[Any] = field(factory=list, init=False)
    _waiting: list[Any] = field(factory=list, init=False)
    _waiting_bytes: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        names = [directory_name(*each) for each in zip(self.writer.directories, self.values, strict=True)]
        name = f"part-{uuid.uuid4().hex}.{self.writer.compression}.parquet"
        self.path = "/".join(each for each in (self.writer.below, *names, name) if each)

    @property
    def url(self) -> str:
        return f"{self.writer.store.url}/{self.path}"

    @property
    def is_full(self) -> bool:
        return self._sink is not None and self._sink.tell() >= self.writer.target_bytes

    def add(self, rows: Any) -> None:
        """Take rows of the file's directory."""
        if not self.writer.kept:
            rows = rows.drop_columns(list(self.writer.directories))
        self._waiting.append(rows if self.writer.schema is None else conformed(rows, self.writer.schema))
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= self.writer.row_group_bytes:
            self._write()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """A context whose errors name the file: those of a local disk do not."""
        try:
            yield
        except OSError as e:
            raise LakeError(f"{self.url} cannot be written: {' '.join(str(e).split())}") from e

    def _write(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        rows = pa.Table.from_batches(self._waiting)
        with self._naming():
            if self._parquet is None:
                self._open()
                self._parquet = parquet.ParquetWriter(
                    self._sink,
                    rows.schema,
                    compression=self.writer.compression,
                    store_schema=False,
                    metadata_collector=self._footers,
                )
            self._parquet.write_table(rows, row_group_size=max(1, rows.num_rows))
        self._waiting, self._waiting_bytes = [], 0

    def _open(self) -> None:
        target = f"{self.writer.store.root()}/{self.path}"
        if self.writer.store.local_root() is not None:
            self.files.create_dir(target.rpartition("/")[0])
        with waiting(self.url, "to begin this file"):
            self._sink = self.files.open_output_stream(target)

    def end(self) -> PartFile:
        """Write the rest and the footer."""
        if self._waiting:
            self._write()
        with self._naming():
            self._parquet.close()
            size = self._sink.tell()
            with waiting(self.url, "to end this file", PATIENCE + size / _UPLOAD):
                self._sink.close()
        (footer,) = self._footers
        partition = dict(zip(self.writer.directories, self.values, strict=True))
        return PartFile(self.path, size, footer.num_rows, partition, footer)

    def give_up(self) -> None:
        """Delete what there is, as far as it works."""
        if self._sink is None:
            return
        ends = [self._sink.close, lambda: self.files.delete_file(f"{self.writer.store.root()}/{self.path}")]
        if self._parquet is not None:
            ends.insert(0, self._parquet.close)
        for end in ends:
            # A writer that could not write says RuntimeError, which would hide why.
            with suppress(OSError, RuntimeError):
                end()


def runs(batch: Any, directories: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """
    Divide a batch where the directories' values change.

    :returns: the values, and the rows that have them, in order.
    """
    import numpy as np

    if not batch.num_rows:
        return
    changes = {0, batch.num_rows}
    columns = [batch.column(name) for name in directories]
    for column in columns:
        codes = column.dictionary_encode("encode").indices.to_numpy(zero_copy_only=False)
        changes.update((np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist())
    bounds = sorted(changes)
    for start, end in pairwise(bounds):
        yield tuple(column[start].as_py() for column in columns), batch.slice(start, end - start)


def conformed(rows: Any, schema: Any) -> Any:
    """
    Rows as a batch of another schema: columns by name, in its order, cast; those that the rows lack are null.

    :raise LakeError: the rows have a column that the schema lacks.
    """
    import pyarrow as pa

    if more := [name for name in rows.schema.names if schema.get_field_index(name) < 0]:
        raise LakeError(f"the table has no column {more[0]!r}")
    columns = [
        rows.column(each.name).cast(each.type) if each.name in rows.schema.names else pa.nulls(rows.num_rows, each.type)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def directory_name(column: str, value: Any) -> str:
    """
    The name of a directory, as Hive and Spark make it.

    Of a long value it is shortened, and differs from that of any other: what a table's value is, its log says.
    """
    name = f"{_escaped(column)}={NO_VALUE if value is None or value == '' else _escaped(value_text(value))}"
    encoded = name.encode()
    if len(encoded) <= _LONGEST_NAME:
        return name
    digest = sha256(encoded).hexdigest()[:16]
    return f"{encoded[: _LONGEST_NAME - len(digest) - 1].decode(errors='ignore')}~{digest}"


def value_text(value: Any) -> str:
    """A value as Spark makes it text for a directory's name."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    return "".join(f"%{ord(each):02X}" if each in _ESCAPED else each for each in text)


def _packed(values: Mapping[str, Any]) -> bytes:
    import pickle

    return pickle.dumps(dict(values))


def _unpacked(content: bytes) -> dict[str, Any]:
    import pickle

    values: dict[str, Any] = pickle.loads(bytes(content))
    return values


def _serialized(footer: Any) -> bytes:
    out = io.BytesIO()
    footer.write_metadata_file(out)
    return out.getvalue()


def _footer(content: bytes) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    return parquet.read_metadata(pa.BufferReader(bytes(content)))
