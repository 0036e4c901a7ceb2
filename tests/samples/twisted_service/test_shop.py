"""``python -m twisted.trial test_shop``"""

import treq
from shop import Shop
from twisted.internet import reactor
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from logbus.testing import Broker


class ShopTests(TestCase):
    timeout = 120

    async def setUp(self):
        self.broker = Broker({"num.partitions": 3}).start()
        self.addCleanup(self.broker.close)
        self.broker.admin.create_topic("orders")
        self.shop = Shop(reactor, self.broker.bootstrap)
        self.shop.startService()
        self.addCleanup(self.shop.stopService)
        port = reactor.listenTCP(0, self.shop.site, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        self.url = f"http://127.0.0.1:{port.getHost().port}"

    async def order(self, item):
        response = await treq.post(f"{self.url}/orders/{item}", persistent=False)
        return response.code, await response.json()

    async def counts(self):
        """What is counted as soon as all orders are."""
        await deferToThread(self.broker.wait_no_lag, "counting", "orders")
        return await (await treq.get(f"{self.url}/counts", persistent=False)).json()

    async def test_orders_are_counted(self):
        for item in ("tea", "cake", "tea"):
            code, _ = await self.order(item)
            self.assertEqual(code, 201)
        self.assertEqual(await self.counts(), {"tea": 2, "cake": 1})

    async def test_broker_restarts(self):
        await self.order("tea")
        await deferToThread(self.broker.restart)
        code, place = await self.order("tea")
        self.assertEqual((code, place["offset"]), (201, 1))
        self.assertEqual(await self.counts(), {"tea": 2})
