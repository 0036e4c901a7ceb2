"""Tests loads of Avro events with schemas in the broker's registry."""

from __future__ import annotations

import json
import urllib.request
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from logbus.client.schema.schema_frame import frame
from logbus.pipeline.blocking.schema_registry import NoSuchSchema, RegistryClient, RegistryFailed
from logbus.pipeline.errors import LakeError, OptionError
from logbus.pipeline.payloads.avro_payload import AvroPayload
from logbus.testing import Broker
from tests.pipeline.load_fixtures import BASE, commits, fill, load, make, odd

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = {"type": "long", "logicalType": "timestamp-millis"}


def _schema(**fields: Any) -> dict[str, Any]:
    named = [{"name": name, **(kind if "default" in kind else {"type": kind})} for name, kind in fields.items()]
    return {"type": "record", "name": "View", "fields": named}


FIRST = _schema(user="string", at=AT, tags={"type": "map", "values": "int"})
SECOND = _schema(
    user="string", at=AT, tags={"type": "map", "values": "int"}, page={"type": ["null", "string"], "default": None}
)


def _register(broker: Broker, topic: str, schema: Any) -> int:
    request = urllib.request.Request(
        f"{broker.admin_url}/registry/subjects/{topic}-value/versions",
        json.dumps({"schema": json.dumps(schema)}).encode(),
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(json.load(answer)["id"])


def _framed(schema_id: int, schema: Any, **event: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), event)
    return frame(schema_id, out.getvalue())


def test_avro(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Events of two versions of a schema become rows; each kind of value that cannot be read has its reason."""
    topic = make(broker)
    registry = RegistryClient(f"{broker.admin_url}/registry")
    first = _register(broker, topic, FIRST)
    whole = _framed(first, FIRST, user="ü", at=BASE, tags={"a": 1})
    bad = {
        None: "there is no value",
        b"{}": "does not begin with a byte 0 and a schema's id in four bytes",
        frame(99, whole[5:]): "schema 99: ",
        whole + b"x": f"1 bytes follow a value of schema {first}",
        whole[:7]: f"no value of schema {first}, or it does not fit the columns: ",
    }
    fill(broker, topic, [whole, *bad])
    payload = AvroPayload(registry=registry, subject=f"{topic}-value", event_time="at")
    report = load(spark, broker, tmp_path, topic, payload=payload)
    assert (report.records, report.quarantined) == (6, 5)
    reasons = odd(spark, tmp_path)
    assert sorted(reasons) == [1, 2, 3, 4, 5]
    for offset, words in enumerate(bad.values(), 1):
        assert words in reasons[offset]
    second = _register(broker, topic, SECOND)
    later = _framed(second, SECOND, user="v", at=BASE + 1, tags={}, page="p")
    fill(broker, topic, [later, whole])
    payload = AvroPayload(registry=registry, subject=f"{topic}-value", event_time="at", into="view")
    with pytest.raises(OptionError, match="the event's column 'key' has the name of one of the record's own"):
        AvroPayload(registry=registry, subject=f"{topic}-value", into="key", metadata="columns")
    payload = AvroPayload(registry=registry, subject=f"{topic}-value", event_time="at")
    load(spark, broker, tmp_path, topic, payload=payload)
    rows = spark.read.option("mergeSchema", "true").parquet(str(tmp_path)).orderBy("offset").collect()
    assert [(row["offset"], row["user"], row["tags"], row["page"], str(row["date"])) for row in rows] == [
        (0, "ü", {"a": 1}, None, "2023-11-14"),
        (6, "v", {}, "p", "2023-11-14"),
        (7, "ü", {"a": 1}, None, "2023-11-14"),
    ]
    before = len(commits(tmp_path))
    with pytest.raises(LakeError, match="column 'user' is string in the table and binary in the new rows"):
        load(
            spark,
            broker,
            tmp_path,
            topic,
            payload=AvroPayload(registry=registry, schema=json.dumps(_schema(user="bytes"))),
        )
    assert len(commits(tmp_path)) == before


def test_wrong_registries(broker: Broker) -> None:
    """They are named before anything is read."""
    registry = RegistryClient(f"{broker.admin_url}/registry")
    with pytest.raises(NoSuchSchema, match="/registry/subjects/nowhere-value/versions/latest: "):
        AvroPayload(registry=registry, subject="nowhere-value")
    with pytest.raises(OptionError, match="either the schema of the columns, or the subject"):
        AvroPayload(registry=registry)
    with pytest.raises(OptionError, match="not an Avro schema: "):
        AvroPayload(registry=registry, schema='{"type": "record"}')
    with pytest.raises(OptionError, match="the schema has no field 'when' for the event's time"):
        AvroPayload(registry=registry, schema=json.dumps(FIRST), event_time="when")
    with pytest.raises(RegistryFailed, match=r"http://127\.0\.0\.1:9/subjects/a/versions/latest: "):
        AvroPayload(registry=RegistryClient("http://127.0.0.1:9", retry_timeout=1.0), subject="a")
    for url in ("nonsense", "ftp://host/registry", "http://user:password@host/registry"):
        with pytest.raises(OptionError, match="is no URL of a schema registry, such as http://"):
            RegistryClient(url)
