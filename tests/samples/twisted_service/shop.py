"""A shop on Twisted: writes orders to a topic, and counts what has been ordered everywhere."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from twisted.web.http import CREATED, SERVICE_UNAVAILABLE
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from logbus.client import Consumer, ConsumerRecord, RecordMetadata
from logbus.client.serializers import JsonDeserializer, JsonSerializer
from logbus.client.services import ClusterService, ConsumerService


class Shop(ClusterService):
    """Its consumer and its producer stop with it, in this order; the orders under way are written first."""

    def __init__(self, reactor: Any, bootstrap: str | Iterable[str]) -> None:
        super().__init__(reactor, bootstrap)
        self.counts: Counter[str] = Counter()
        self.orders = self.producer(value_serializer=JsonSerializer())
        ConsumerService(self.cluster, self._consumer, self._count).setServiceParent(self)
        root = Resource()
        root.putChild(b"orders", Orders(self))
        root.putChild(b"counts", Counts(self))
        self.site = Site(root)

    def _consumer(self) -> Consumer[bytes | None, Any]:
        consumer = Consumer(
            self.cluster,
            "counting",
            auto_offset_reset="earliest",
            auto_commit_interval=0.5,
            value_deserializer=JsonDeserializer(),
        )
        consumer.subscribe(["orders"])
        return consumer

    def _count(self, record: ConsumerRecord[bytes | None, Any]) -> None:
        self.counts[record.value["item"]] += 1


class Orders(Resource):
    """``POST /orders/ITEM``: answered when the order is written."""

    def __init__(self, shop: Shop) -> None:
        super().__init__()
        self._shop = shop

    def getChild(self, path: bytes, request: Request) -> Resource:
        return Order(self._shop, path.decode())


class Order(Resource):
    isLeaf = True

    def __init__(self, shop: Shop, item: str) -> None:
        super().__init__()
        self._shop = shop
        self._item = item

    def render_POST(self, request: Request) -> int:
        def written(place: RecordMetadata) -> None:
            answer(request, {"partition": place.partition, "offset": place.offset}, CREATED)

        def failed(failure: Any) -> None:
            answer(request, {"error": failure.getErrorMessage()}, SERVICE_UNAVAILABLE)

        sent = self._shop.orders.send("orders", {"item": self._item}, key=self._item.encode())
        sent.addCallbacks(written, failed)
        return NOT_DONE_YET


class Counts(Resource):
    """``GET /counts``: how often each item was ordered."""

    isLeaf = True

    def __init__(self, shop: Shop) -> None:
        super().__init__()
        self._shop = shop

    def render_GET(self, request: Request) -> int:
        answer(request, self._shop.counts)
        return NOT_DONE_YET


def answer(request: Request, value: Any, code: int = 200) -> None:
    request.setResponseCode(code)
    request.setHeader(b"content-type", b"application/json")
    request.write(json.dumps(value).encode())
    request.finish()
