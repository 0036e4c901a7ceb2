"""A broker in the test's process, twice on the same data: produce, sync, consume in a group; a simulated disk."""

import os
import sys
from pathlib import Path

from confluent_kafka import Consumer, Producer

from logbus.testing import Broker
from logbus.testing.simulation.environment.memory_disk import MemoryDisk

assert not hasattr(os, "fdatasync"), "the process has what only Linux has"
data = Path(sys.argv[1])
for life in (1, 2):
    with Broker(data_dir=data) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "enable.idempotence": True})
        for number in range(500):
            # Large enough for sendfile.
            producer.produce("orders", b"%06d" % number + bytes(2000), partition=0)
        assert producer.flush(60) == 0
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": f"life {life}", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        found = [record.value()[:6] for record in consumer.consume(500 * life, timeout=60)]
        consumer.close()
        assert found == [b"%06d" % number for number in range(500)] * life, len(found)
disk = MemoryDisk()
disk.replace("file", b"content")
assert disk.read("file") == b"content"
print("done")
