"""``python -m pytest``"""

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from totals import totals


@pytest.fixture(scope="session")
def spark():
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    yield session
    session.stop()


def order(broker, *items):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for item in items:
        producer.produce("orders", f'{{"item": "{item}"}}', item)
    assert producer.flush(60) == 0


def test_orders_are_counted(spark, logbus_broker, tmp_path):
    for topic in ("orders", "totals"):
        logbus_broker.admin.create_topic(topic)
    order(logbus_broker, "tea", "cake", "tea")
    totals(spark, logbus_broker.bootstrap, str(tmp_path))
    logbus_broker.assert_records("totals", [("tea", "2"), ("cake", "1")], in_order=False)

    order(logbus_broker, "tea")
    totals(spark, logbus_broker.bootstrap, str(tmp_path))
    logbus_broker.assert_records("totals", [("tea", "2"), ("cake", "1"), ("tea", "3")], in_order=False)
