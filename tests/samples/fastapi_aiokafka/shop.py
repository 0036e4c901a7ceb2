"""A shop on FastAPI and aiokafka: writes orders to a topic, and counts what has been ordered everywhere."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from fastapi import FastAPI, HTTPException


class Shop:
    """Its clients are made when the application starts, on its loop."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.counts: Counter[str] = Counter()

    async def run(self, app: FastAPI) -> AsyncIterator[None]:
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap, enable_idempotence=True) as self.producer:
            counting = asyncio.create_task(self.count())
            yield
            counting.cancel()
            await asyncio.wait([counting])

    async def count(self) -> None:
        async with AIOKafkaConsumer(
            "orders",
            bootstrap_servers=self.bootstrap,
            group_id="counting",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            while True:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    self.counts.update(json.loads(record.value)["item"] for record in records)
                    await consumer.commit()

    async def order(self, item: str) -> dict[str, int]:
        try:
            place = await self.producer.send_and_wait("orders", json.dumps({"item": item}).encode(), key=item.encode())
        except KafkaError as e:
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
