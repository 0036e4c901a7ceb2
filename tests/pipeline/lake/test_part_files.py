"""Tests data files that tasks write, without Spark and with it."""

from __future__ import annotations

import datetime
import io
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

pytest.importorskip("pyarrow")
import pyarrow as pa
from pyarrow import parquet

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.object_store import ArrowStore
from logbus.pipeline.lake.part_files import ColumnStatistics, PartFile, check_parts, delete_parts
from logbus.pipeline.lake.part_writer import FIELD_ID, PartWriter, conformed, directory_name, runs, write_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = datetime.date(2024, 5, 1)


def _batch(**columns: Any) -> Any:
    return pa.RecordBatch.from_pydict(columns)


def _writer(table: Path, *directories: str, **more: Any) -> PartWriter:
    return PartWriter(store=ArrowStore(str(table)), directories=directories, **more)


def _rows(table: Path, parts: list[PartFile]) -> list[dict[str, Any]]:
    return [row for each in parts for row in parquet.ParquetFile(table / each.path).read().to_pylist()]


def test_runs() -> None:
    """A batch is divided where a value changes, also to or from null."""
    batch = _batch(a=["x", "x", None, None, "y"], b=[1, 2, 2, 2, 2], n=[0, 1, 2, 3, 4])
    found = [(values, rows.column("n").to_pylist()) for values, rows in runs(batch, ["a", "b"])]
    assert found == [(("x", 1), [0]), (("x", 2), [1]), ((None, 2), [2, 3]), (("y", 2), [4])]
    assert [values for values, _ in runs(batch, [])] == [()]
    assert list(runs(batch.slice(0, 0), ["a"])) == []


def test_one_file_for_each_directory(tmp_path: Path) -> None:
    """Whatever batches the rows come in; the directories' columns are in the paths and not in the files."""
    batches = [_batch(page=["a", "b"], n=[1, 2]), _batch(page=["b", None], n=[3, 4])]
    parts = list(_writer(tmp_path, "page", below="data").write(batches))
    assert [(each.partition, each.records) for each in parts] == [
        ({"page": "a"}, 1),
        ({"page": "b"}, 2),
        ({"page": None}, 1),
    ]
    places = [each.path.rpartition("/")[0] for each in parts]
    assert places == ["data/page=a", "data/page=b", "data/page=__HIVE_DEFAULT_PARTITION__"]
    assert _rows(tmp_path, parts) == [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}]
    assert [each.size for each in parts] == [(tmp_path / each.path).stat().st_size for each in parts]


def test_target_size(tmp_path: Path) -> None:
    """A file is ended once it is large enough; a row group is as large as asked, whatever the batches are."""
    batches = [_batch(n=list(range(start, start + 1000))) for start in range(0, 20_000, 1000)]
    writer = _writer(tmp_path, target_bytes=5_000, row_group_bytes=16_000, compression="snappy")
    parts = list(writer.write(batches))
    assert len(parts) > 2
    assert all(each.size < 40_000 for each in parts)
    assert [row["n"] for row in _rows(tmp_path, parts)] == list(range(20_000))
    group = parts[0].footer.row_group(0)
    assert group.num_rows == 2000
    assert group.column(0).compression == "SNAPPY"


def test_no_rows(tmp_path: Path) -> None:
    """They make no file."""
    assert list(_writer(tmp_path).write([_batch(n=pa.array([], pa.int64()))])) == []
    assert list(tmp_path.iterdir()) == []


def test_statistics(tmp_path: Path) -> None:
    """Of all row groups; unknown where those of one are."""
    day = datetime.date(2024, 5, 2)
    batches = [
        _batch(n=pa.array([None, None], pa.int64()), d=[DAY, DAY], t=["a", "x" * 10_000], e=pa.nulls(2, pa.int32())),
        _batch(n=[7, 3], d=[day, None], t=["b", "c"], e=pa.nulls(2, pa.int32())),
    ]
    (part,) = _writer(tmp_path, row_group_bytes=1).write(batches)
    assert part.footer.num_row_groups == 2
    assert part.statistics() == {
        "n": ColumnStatistics(2, 3, 7),
        "d": ColumnStatistics(1, DAY, day),
        "t": ColumnStatistics(0),
        "e": ColumnStatistics(4),
    }


def test_statistics_of_times_that_are_far_away(tmp_path: Path) -> None:
    """Brokers keep times that Python does not have: such a column has no bounds."""
    times = pa.array([400_000_000_000_000_000, 0]).cast(pa.timestamp("us", "UTC"))
    (part,) = PartWriter(store=ArrowStore(str(tmp_path))).write([pa.record_batch({"at": times})])
    assert part.statistics() == {"at": ColumnStatistics(0)}


def test_nested_statistics(tmp_path: Path) -> None:
    (part,) = _writer(tmp_path).write([_batch(event=[{"n": 1}, None, {"n": 5}])])
    assert part.statistics() == {"event.n": ColumnStatistics(1, 1, 5)}


def test_schema(tmp_path: Path) -> None:
    """Rows are cast to the table's schema; columns have its ids, and null if the rows lack them."""
    kinds = {"m": pa.int64(), "n": pa.int64(), "s": pa.large_string()}
    schema = pa.schema(
        [pa.field(name, kind, metadata={FIELD_ID: str(number)}) for number, (name, kind) in enumerate(kinds.items(), 5)]
    )
    (part,) = _writer(tmp_path, schema=schema).write([_batch(s=["a"], n=pa.array([1], pa.int32()))])
    assert _rows(tmp_path, [part]) == [{"m": None, "n": 1, "s": "a"}]
    found = parquet.read_schema(tmp_path / part.path)
    assert {each.name: each.metadata[FIELD_ID] for each in found} == {"m": b"5", "n": b"6", "s": b"7"}
    with pytest.raises(LakeError, match="no column 'other'"):
        conformed(_batch(other=[1]), schema)


def test_failed_attempt(tmp_path: Path) -> None:
    """A file that is not finished is deleted; finished ones stay, and are named nowhere."""

    def rows() -> Iterator[Any]:
        yield _batch(page=["a", "b"], n=[1, 2])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(_writer(tmp_path, "page", row_group_bytes=1).write(rows()))
    assert [each.parent.name for each in tmp_path.rglob("*.parquet")] == ["page=a"]


def test_directory_names() -> None:
    """As Hive and Spark make them; a long value is shortened, and stays different from others."""
    assert directory_name("a", "x/y=z%:é ü") == "a=x%2Fy%3Dz%25%3Aé ü"
    assert directory_name("a", True) == "a=true"
    assert directory_name("a", DAY) == "a=2024-05-01"
    assert directory_name("a", "") == directory_name("a", None) == "a=__HIVE_DEFAULT_PARTITION__"
    long = [directory_name("a", "é" * 200 + end) for end in "xy"]
    assert long[0] != long[1]
    assert all(len(each.encode()) <= 200 for each in long)


def test_place_that_is_not_shared(tmp_path: Path) -> None:
    """Files that are not here, or not in full, are not committed; the error says what is to be shared."""
    parts = list(_writer(tmp_path).write([_batch(n=[1])]))
    check_parts(ArrowStore(str(tmp_path)), parts)
    (tmp_path / parts[0].path).write_bytes(b"short")
    with pytest.raises(LakeError, match="which has 5 here; nothing was committed"):
        check_parts(ArrowStore(str(tmp_path)), parts)
    delete_parts(ArrowStore(str(tmp_path)), parts)
    with pytest.raises(
        LakeError, match=r"which is not here; .* place that Spark's driver and all of its workers share"
    ):
        check_parts(ArrowStore(str(tmp_path)), parts)
    delete_parts(ArrowStore(str(tmp_path)), parts)


def test_compressions(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="compression is 'lzo'; it takes zstd or snappy"):
        _writer(tmp_path, compression="lzo")


def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Each row is in one counted file, in directories by value, with typed values; and on nobody's disk but ours."""
    rows = spark.range(5000).selectExpr("id", "date_add(DATE'2024-05-01', int(id % 3)) as day", "string(id) as text")
    together = rows.repartition(2, "day").sortWithinPartitions("day")
    parts = write_parts(together, _writer(tmp_path, "day"))
    assert sorted(each.partition["day"] for each in parts) == [DAY + datetime.timedelta(days) for days in range(3)]
    assert sorted(row["id"] for row in _rows(tmp_path, parts)) == list(range(5000))
    first = next(each for each in parts if each.partition["day"] == DAY)
    assert (first.records, first.statistics()["id"]) == (1667, ColumnStatistics(0, 0, 4998))
    assert write_parts(rows.where("id < 0"), _writer(tmp_path)) == []


@pytest.mark.parametrize("failing", [0.0, 0.2])
def test_on_s3(failing: float) -> None:
    """Files get there in full, also if one request in five fails; s3a is the same store."""
    pytest.importorskip("moto")
    from tests.pipeline.s3_server import S3Server

    with S3Server("lake", failing=failing) as server:
        store = ArrowStore("s3a://lake/views", server.options)
        writer = PartWriter(store=store, directories=["page"], target_bytes=200_000, row_group_bytes=400_000)
        noise = pa.array([secrets.token_bytes(200) for _ in range(4000)])
        batches = [_batch(page=["a"] * 2000 + ["b"] * 2000, n=list(range(4000)), noise=noise)]
        parts = list(writer.write(batches))
        check_parts(store, parts)
        files = store.file_system()
        infos = files.get_file_info([f"{store.root()}/{each.path}" for each in parts])
        assert [info.size for info in infos] == [each.size for each in parts]
        found = [parquet.read_table(info.path, filesystem=files, columns=["n"], partitioning=None) for info in infos]
        assert pa.concat_tables(found)["n"].to_pylist() == list(range(4000))
        assert bool(server.failed) == bool(failing)
        delete_parts(store, parts)
        infos = files.get_file_info([info.path for info in infos])
        assert {info.type.name for info in infos} == {"NotFound"}


def test_s3_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is named, after the attempts, of which ten with their pauses would take a minute."""
    monkeypatch.setattr("logbus.pipeline.lake.object_store.REQUEST_ATTEMPTS", 3)
    store = ArrowStore("s3://lake/views", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "x"})
    with pytest.raises(LakeError, match=r"^s3://lake/views/part-\w+\.zstd\.parquet cannot be written: .*"):
        list(PartWriter(store=store).write([_batch(n=[1])]))


def test_disk_is_full(tmp_path: Path) -> None:
    """The file is named and deleted, and what Arrow's writer says of its end does not hide why."""

    class Full(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, _: Any) -> int:
            raise OSError(28, "No space left on device")

    files = mock.Mock()
    files.open_output_stream.side_effect = lambda _: pa.PythonFile(Full(), mode="w")
    with (
        mock.patch.object(ArrowStore, "file_system", return_value=files),
        pytest.raises(
            LakeError, match=rf"^{tmp_path}/part-\w+\.zstd\.parquet cannot be written: .*No space left on device"
        ),
    ):
        list(PartWriter(store=ArrowStore(str(tmp_path))).write([_batch(n=[1])]))
    files.delete_file.assert_called_once()
