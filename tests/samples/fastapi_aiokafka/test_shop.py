"""``python -m pytest``"""

import pytest
from fastapi.testclient import TestClient
from shop import make_app

pytestmark = pytest.mark.logbus(num_partitions=3)


@pytest.fixture
def shop(logbus_broker):
    logbus_broker.admin.create_topic("orders")
    with TestClient(make_app(logbus_broker.bootstrap)) as client:
        yield client


def test_orders_are_counted(shop, logbus_broker):
    for item in ("tea", "cake", "tea"):
        assert shop.post(f"/orders/{item}").status_code == 201
    logbus_broker.wait_no_lag("counting", "orders")
    assert shop.get("/counts").json() == {"tea": 2, "cake": 1}


def test_order_is_written_once(shop, logbus_broker):
    # The broker has written the order, and its answer is lost: the producer sends it again.
    logbus_broker.faults.disconnect("Produce", times=1, after=True)
    assert shop.post("/orders/tea").json()["offset"] == 0
    logbus_broker.assert_records("orders", [("tea", '{"item": "tea"}')])
