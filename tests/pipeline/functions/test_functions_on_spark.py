"""Tests the column functions on a Spark, with the broker's registry and Confluent's serializers on the other side."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from logbus.pipeline.errors import OptionError
from logbus.pipeline.functions import (
    RegistryClient,
    from_avro,
    from_json_schema,
    from_protobuf,
    to_avro,
    to_json_schema,
    to_protobuf,
)
from logbus.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "what", "type": "string"}]}
PRICES = {"name": "prices", "type": {"type": "map", "values": "int"}, "default": {}}
AT = {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}], "default": None}
SECOND = {**FIRST, "fields": [*FIRST["fields"], PRICES, AT]}
SHIP = (
    'syntax = "proto3"; package sea; message Port {string name = 1;} message Ship {string name = 1; int32 masts = 2;}'
)
JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"what": {"type": "string"}, "pounds": {"type": "integer"}},
}
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
def confluent(broker: Broker) -> Any:
    """Confluent's client of the registry."""
    with SchemaRegistryClient({"url": f"{broker.admin_url}/registry"}) as client:
        yield client


def context(topic: str) -> SerializationContext:
    """What Confluent's serializers take."""
    return SerializationContext(topic, MessageField.VALUE)


@pytest.mark.pair
def test_functions(spark: SparkSession, broker: Broker, confluent: Any) -> None:
    """Values of Confluent's serializers become columns, and these become values for its deserializers."""
    url = f"{broker.admin_url}/registry"
    avro = [
        AvroSerializer(confluent, json.dumps(schema))(value, context("teas"))
        for schema, value in ((FIRST, {"what": "old"}), (SECOND, {"what": "new", "prices": {"a": 1}, "at": NOON}))
    ]
    json_value = JSONSerializer(json.dumps(JSON), confluent)({"what": "ü", "pounds": 2}, context("json-teas"))
    confluent.register_schema("ships-value", Schema(SHIP, "PROTOBUF"))
    confluent.register_schema("names-value", Schema('"string"', "AVRO"))
    rows = spark.createDataFrame([(avro[0], json_value), (avro[1], json_value), (None, None)], "a binary, j binary")
    order = from_avro("a", url, "teas-value")
    rows = rows.select(
        order.alias("order"),
        from_avro("a", RegistryClient(url), "teas-value", version=1).alias("first"),
        from_avro("a", url, schema=json.dumps({**FIRST, "fields": [AT]})).alias("given"),
        from_json_schema("j", url, "json-teas-value").alias("json"),
    )
    rows = rows.select(
        "*",
        to_avro("order", url, "copies-value", schema=json.dumps(SECOND), register=True).alias("avro"),
        to_json_schema("json", url, "json-teas-value").alias("json_value"),
        to_protobuf(
            rows.json.withField("masts", rows.json.pounds.cast("int")).dropFields("what", "pounds"),
            url,
            "ships-value",
            message="Ship",
        ).alias("ship"),
        to_avro("order.what", url, "names-value").alias("name"),
    ).select(
        "*",
        from_protobuf("ship", url, "ships-value", message="sea.Ship").alias("sailed"),
        from_avro("name", url, "names-value").alias("said"),
    )
    old, new, null = (each.asDict(True) for each in rows.collect())
    assert old["order"] == {"what": "old", "prices": {}, "at": None}
    assert (new["first"], new["order"]["prices"]) == ({"what": "new"}, {"a": 1})
    assert new["given"]["at"].astimezone(UTC) == NOON
    assert new["json"] == {"what": "ü", "pounds": 2}
    assert (new["sailed"], new["said"]) == ({"name": "", "masts": 2}, "new")
    assert set(null.values()) == {None}
    decoded = AvroDeserializer(confluent)(bytes(new["avro"]), context("copies"))
    assert decoded == {"what": "new", "prices": {"a": 1}, "at": NOON}
    assert JSONDeserializer(json.dumps(JSON), schema_registry_client=confluent)(
        bytes(new["json_value"]), context("json-teas")
    ) == {"what": "ü", "pounds": 2}
    assert "from_avro(" in str(order)  # as plans show it


@pytest.mark.pair
def test_json_times(spark: SparkSession, broker: Broker) -> None:
    """Times are written with all of their digits, and so are read back as they were."""
    url = f"{broker.admin_url}/registry"
    schema = {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}
    rows = spark.sql(
        "SELECT struct(timestamp'2026-01-02 12:00:00.123456Z' AS at, timestamp_ntz'2026-01-02 12:00' AS t) AS o"
    )
    made = to_json_schema("o", url, "times-value", schema=json.dumps(schema), register=True)
    (row,) = rows.select("o", made.alias("value")).collect()
    written = json.loads(bytes(row.value)[5:])
    assert written == {"at": "2026-01-02T12:00:00.123456Z", "t": "2026-01-02T12:00:00.000000"}
    (read,) = rows.select(from_json_schema(made, url, "times-value").alias("o")).collect()
    assert read.o.at == row.o.at


@pytest.mark.pair
def test_malformed(spark: SparkSession, broker: Broker, confluent: Any) -> None:
    """They are null, or an error that says what is wrong; wrong arguments are refused before anything runs."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    failed = (PySparkException, Py4JJavaError)
    url = f"{broker.admin_url}/registry"
    good = AvroSerializer(confluent, json.dumps(FIRST))({"what": "x"}, context("odd"))
    JSONSerializer(json.dumps(JSON), confluent)({"what": "x"}, context("odd-json"))
    rows = spark.createDataFrame([(good,), (good + b"x",), (b"\0\0\0\x7f\xff\0",), (b"{}",)], "a binary").coalesce(1)
    permissive = from_avro("a", url, "odd-value", mode="permissive")
    found = rows.select(permissive.alias("a"), from_json_schema("a", url, "odd-json-value", mode="PERMISSIVE"))
    assert [each.a for each in found.collect()] == [("x",), None, None, None]
    for call, why in [
        (from_avro, "from_avro: 1 bytes follow a value of schema"),
        (from_json_schema, "MALFORMED_RECORD_IN_PARSING"),
    ]:
        subject = "odd-value" if call is from_avro else "odd-json-value"
        with pytest.raises(failed, match=why):
            rows.select(call("a", url, subject)).collect()
    with pytest.raises(failed, match="from_json_schema: a value begins with 7B7D, not with a byte 0"):
        rows.where("a = cast('{}' as binary)").select(from_json_schema("a", url, "odd-json-value")).collect()
    with pytest.raises(failed, match="to_avro: the value does not fit schema"):
        rows.selectExpr("struct(1 as what)").select(to_avro("struct(1 AS what)", url, "odd-value")).collect()
    with pytest.raises(OptionError, match="mode is 'DROPMALFORMED'; it takes FAILFAST or PERMISSIVE"):
        from_avro("a", url, "odd-value", mode="DROPMALFORMED")
    with pytest.raises(OptionError, match="version is 0; it takes a number from 1, or 'latest'"):
        from_avro("a", url, "odd-value", version=0)
    with pytest.raises(OptionError, match="either a version of a subject, such as 'orders-value', or given as text"):
        from_avro("a", url)
    with pytest.raises(OptionError, match="there is no schema to register; give its text"):
        to_avro("a", url, "odd-value", register=True)
