"""The order in which partitions have their turn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.remote_log.remote_log_manager import RemoteLogManager
from logbus.cluster.remote_log.remote_log_task import RemoteLogTask
from logbus.cluster.remote_log.store_trouble import StoreTrouble
from logbus.model import TopicPartition
from logbus.storage.remote.iremote_storage import RemoteStorageError


class RemoteLogManagerTests(SynchronousTestCase):
    """A broker that works on one partition at a time."""

    def test_partitions_for_which_the_store_fails(self) -> None:
        """They hold up neither the others nor deleted topics; while the store is away, each run tries little."""
        failing, done = {1, 3}, list[Any]()

        async def run(task: RemoteLogTask) -> None:
            number = task.replica.topic_partition.partition
            done.append(number)
            if number in failing:
                raise RemoteStorageError("the bucket has a retention policy")

        async def delete(_: object) -> None:
            done.append("topics")

        self.patch(RemoteLogTask, "run", run)
        log = SimpleNamespace(remote=object())
        replicas: Any = [
            SimpleNamespace(log=log, topic_id=UUID(int=7), topic_partition=TopicPartition("t", number))
            for number in range(5)
        ]
        deleted: Any = SimpleNamespace(delete=delete)
        tools: Any = SimpleNamespace()
        manager = RemoteLogManager(
            replicas, tools, deleted, StoreTrouble("memory://store"), Clock(), lambda: 30.0, tasks_at_a_time=1
        )
        manager._stopped = False
        runs = []
        for _ in range(5):
            self.successResultOf(Deferred.fromCoroutine(manager.run()))
            runs.append(list(done))
            done.clear()
        self.assertEqual(
            runs, [[0, 1], [0, 2, 3], [0, 2, 4, 1, "topics"], [0, 2, 4, 3, "topics"], [0, 2, 4, 1, "topics"]]
        )
        failing.clear()
        for _ in range(2):
            done.clear()
            self.successResultOf(Deferred.fromCoroutine(manager.run()))
        self.assertEqual(done, [0, 1, 2, 3, 4, "topics"])
