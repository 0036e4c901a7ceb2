"""A shop on FastAPI and logbus.client.aio: writes orders to a topic, and counts what has been ordered everywhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException

from logbus.client import ConsumerRecord
from logbus.client.aio import Cluster, Consumer, Producer
from logbus.client.serializers import JsonDeserializer, JsonSerializer
from logbus.errors import LogbusError


class Shop:
    """Its producer and its consumer share the connections and the metadata of a cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.cluster = Cluster(bootstrap)
        self.producer = Producer(self.cluster, value_serializer=JsonSerializer())
        self.counts: Counter[str] = Counter()

    async def run(self, app: FastAPI) -> AsyncIterator[None]:
        async with self.cluster, self.producer, asyncio.TaskGroup() as tasks:
            counting = tasks.create_task(self.read())
            yield
            counting.cancel()

    async def read(self) -> None:
        async with Consumer(
            self.cluster,
            "orders",
            group_id="counting",
            auto_offset_reset="earliest",
            auto_commit_interval=0.5,
            value_deserializer=JsonDeserializer(),
        ) as consumer:
            await consumer.each(self.count, concurrency=16)

    def count(self, record: ConsumerRecord[bytes | None, Any]) -> None:
        self.counts[record.value["item"]] += 1

    async def order(self, item: str) -> dict[str, int]:
        try:
            place = await self.producer.send_and_wait("orders", {"item": item}, key=item.encode())
        except LogbusError as e:
            raise HTTPException(503, str(e)) from e
        return {"partition": place.partition, "offset": place.offset}


def make_app(bootstrap: str) -> FastAPI:
    shop = Shop(bootstrap)
    app = FastAPI(lifespan=asynccontextmanager(shop.run))
    app.post("/orders/{item}", status_code=201)(shop.order)

    @app.get("/counts")
    async def counts() -> dict[str, int]:
        return shop.counts

    return app
