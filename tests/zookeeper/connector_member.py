"""
A member in a process of its own, which can be killed: ``python -m tests.zookeeper.connector_member ZOOKEEPER BOOTSTRAP
GROUP TOPIC`` prints partition, offset and value of each record that it has dealt with.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from logbus.client import Cluster, ConsumerConnector, zookeeper_store


async def main(reactor: Any, connect: str, bootstrap: str, group: str, topic: str) -> None:
    store = zookeeper_store(reactor, connect, session_timeout=2.0)
    await store.open()
    connector = ConsumerConnector(
        Cluster(reactor, bootstrap), store, group, auto_offset_reset="earliest", auto_commit_interval=0.2
    )
    (stream,) = (await connector.create_message_streams({topic: 1}))[topic]
    print("joined", flush=True)
    async for record in stream:
        print(record.partition, record.offset, (record.value or b"").decode(), flush=True)


if __name__ == "__main__":
    react(lambda reactor: Deferred.fromCoroutine(main(reactor, *sys.argv[1:])))
