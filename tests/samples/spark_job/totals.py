"""A Spark job: how often each item was ordered, from one topic into another. Run it again: it takes what is new."""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from logbus.pipeline import register


def totals(spark: SparkSession, bootstrap: str, checkpoint: str) -> None:
    """
    Add the orders since the last run to the totals.

    :param checkpoint: a directory, in which Spark keeps how far it has read and what it has counted.
    """
    register(spark)
    orders = (
        spark.readStream.format("logbus")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    counts: DataFrame = (
        orders.select(F.get_json_object(F.col("value").cast("string"), "$.item").alias("item"))
        .where("item is not null")
        .groupBy("item")
        .count()
    )
    (
        counts.selectExpr("item as key", "cast(count as string) as value")
        .writeStream.foreachBatch(lambda changed, _: write(changed, bootstrap))
        .option("checkpointLocation", checkpoint)
        .outputMode("update")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def write(changed: DataFrame, bootstrap: str) -> None:
    """Write the totals that have changed. A batch that is repeated after a crash writes the same totals again."""
    (
        changed.write.format("logbus")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "totals")
        .mode("append")
        .save()
    )


if __name__ == "__main__":
    session = SparkSession.builder.appName("totals").getOrCreate()
    totals(session, *sys.argv[1:])
