"""The requests of real clients are recorded, however the broker serves them."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from logbus.testing import Broker

SECONDS = 60


def test_recorded() -> None:
    """Each Produce is one, in its order, with its topic and the error of its answer; so is each Fetch."""
    with Broker() as broker:
        address = {"bootstrap.servers": broker.bootstrap}
        admin = AdminClient(address)
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(SECONDS)
        writer = Producer({**address, "linger.ms": 0, "client.id": "shop", "retry.backoff.ms": 1})
        for _ in range(10):
            writer.produce("orders", b"x", partition=0)
            assert writer.flush(SECONDS) == 0
        requests = broker.requests
        sent = requests.wait("Produce", 10, SECONDS, error="NONE", client_id="shop")
        assert [each.subjects for each in sent] == [(("orders", 0),)] * 10
        requests.assert_count("Produce", 10)
        with broker.faults.fail("Produce", error="NOT_ENOUGH_REPLICAS", times=1, topic="orders"):
            writer.produce("orders", b"y", partition=0)
            assert writer.flush(SECONDS) == 0
        requests.assert_count("Produce", 1, error="NOT_ENOUGH_REPLICAS")
        requests.assert_count("Produce", 12)

        reader = Consumer({**address, "group.id": "g", "fetch.wait.max.ms": 10})
        reader.assign([TopicPartition("orders", 0, 0)])
        assert len(reader.consume(11, SECONDS)) == 11
        fetched = requests.wait("Fetch", 5, SECONDS, error="NONE")
        assert {each.subjects for each in fetched} == {(("orders", 0),)}
        reader.commit(offsets=[TopicPartition("orders", 0, 11)], asynchronous=False)
        requests.mark("committed")
        requests.assert_order("Produce", "Fetch", "OffsetCommit", requests.marked("committed"))
        reader.close()
        with broker.faults.drop("Produce"):
            writer.produce("orders", b"z", partition=0)
            assert requests.wait("Produce", 13, SECONDS)[-1].answered is None
            writer.purge()
