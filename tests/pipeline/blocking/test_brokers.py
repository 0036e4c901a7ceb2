"""Tests metadata, coordinators and pooled connections of the blocking client."""

from __future__ import annotations

import os
import pickle
import threading
import time

from twisted.trial.unittest import SynchronousTestCase

from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.pipeline.blocking import LATEST, ConnectionSettings, brokers_for
from logbus.pipeline.blocking.brokers import _BROKERS, GROUP
from logbus.pipeline.errors import (
    AuthenticationFailed,
    Disconnected,
    OffsetLost,
    OptionError,
    RequestTimedOut,
    Unreachable,
)
from logbus.wire.messages.groups import Coordinator, FindCoordinatorResponse
from logbus.wire.messages.metadata import MetadataRequest
from tests.client.misbehaving_brokers import never
from tests.pipeline.socket_cluster import SocketCluster


class ConnectionTests(SynchronousTestCase):
    """With a cluster of two."""

    def setUp(self) -> None:
        """It is closed at the end."""
        self.cluster = SocketCluster(nodes=2)
        self.cluster.add("t", 1, 2)
        self.enterContext(self.cluster)
        self.brokers = self.cluster.client()
        self.addCleanup(self.brokers.close)

    def test_connections_per_thread(self) -> None:
        """Another has others, until they are released to it."""
        self.brokers.metadata()
        mine = self.brokers.node(1)
        self.assertIs(self.brokers.node(1), mine)
        theirs = []

        def other() -> None:
            theirs.append(self.brokers.node(1))
            self.brokers.release()
            theirs.append(self.brokers.node(1))
            self.brokers.release()

        for _ in range(2):
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            self.brokers.release()
        self.assertIsNot(theirs[0], mine)
        self.assertIs(theirs[1], theirs[0])
        self.assertIs(theirs[2], mine)

    def test_closed_connections_are_not_reused(self) -> None:
        """Nor connections that were idle for too long."""
        self.brokers.metadata()
        before = self.brokers.node(1)
        self.cluster.down(1)
        self.cluster.up(1)
        for _ in range(500):
            if not before.is_idle():
                break
            threading.Event().wait(0.01)
        after = self.brokers.node(1)
        self.assertIsNot(after, before)
        self.assertTrue(after.request(MetadataRequest(topics=None)).brokers)
        after.used = time.monotonic() - self.brokers.settings.max_idle - 1
        self.assertIsNot(self.brokers.node(1), after)

    def test_requests_under_way(self) -> None:
        """Several may be; the answers come in their order, and their connection stays the thread's."""
        self.brokers.metadata()
        connection = self.brokers.node(1)
        for _ in range(3):
            connection.send(MetadataRequest(topics=[]))
        self.assertEqual(connection.outstanding, 3)
        self.assertIs(self.brokers.node(1), connection)
        answers = [connection.receive() for _ in range(3)]
        self.assertEqual([len(each.brokers) for each in answers], [2, 2, 2])
        self.assertEqual(connection.outstanding, 0)

    def test_no_answer(self) -> None:
        """It ends the connection: the answers after it could not be told from it."""
        self.brokers.metadata()
        connection = self.brokers.node(1)
        self.cluster.misbehaviors, self.cluster.share = (never,), 1.0
        with self.assertRaises(RequestTimedOut) as caught:
            connection.request(MetadataRequest(topics=None), 0.02)
        self.assertIn("Metadata: no answer from 127.0.0.1", str(caught.exception))
        with self.assertRaises(Disconnected):
            connection.request(MetadataRequest(topics=None))

    def test_unsupported_version(self) -> None:
        """The error names the API, and both sides' versions."""
        with self.assertRaises(ApiError) as caught:
            self.brokers.any().version(22)
        self.assertIs(caught.exception.code, ErrorCode.UNSUPPORTED_VERSION)
        self.assertIn("InitProducerId", str(caught.exception))

    def test_bootstrap_order(self) -> None:
        """
        The first bootstrap address that answers is used; if none does, the error names all, each with its failure.
        """
        self.cluster.down(1)
        self.assertEqual(set(self.brokers.metadata()), {"t"})
        self.cluster.down(2)
        brokers = self.cluster.client(retry_timeout=0.0)
        with self.assertRaises(Unreachable) as caught:
            brokers.metadata()
        for address in self.cluster.bootstrap.split(","):
            self.assertIn(f"{address}: Connection refused", str(caught.exception))

    def test_coordinators(self) -> None:
        """They are known until they prove wrong, and loading is waited for by who asks."""
        asked = []

        def find(node: int, message: object) -> FindCoordinatorResponse:
            asked.append(message)
            port = int(self.cluster.bootstrap.rpartition(":")[2])
            found = Coordinator(key="g", node_id=2, host="127.0.0.1", port=port)
            if len(asked) == 1:
                found.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return FindCoordinatorResponse(coordinators=[found])

        self.cluster.served[10] = (0, 4)
        self.cluster.answers[10] = find
        with self.assertRaises(ApiError) as caught:
            self.brokers.coordinator(GROUP, "g")
        self.assertIn("group 'g'", str(caught.exception))
        for _ in range(2):
            self.assertTrue(self.brokers.coordinator(GROUP, "g").peer.endswith(self.cluster.bootstrap[-5:]))
        self.assertEqual(len(asked), 2)
        self.brokers.forget((GROUP, "g"))
        self.brokers.coordinator(GROUP, "g")
        self.assertEqual(len(asked), 3)


class ProcessTests(SynchronousTestCase):
    """What belongs to a process."""

    def test_one_pool_per_process_and_settings(self) -> None:
        """However often they were pickled; a child begins with none."""
        settings = ConnectionSettings((("127.0.0.1", 1),), client_id="process-test")
        brokers = brokers_for(settings)
        self.addCleanup(_BROKERS.pop, settings)
        self.assertIs(brokers_for(pickle.loads(pickle.dumps(settings))), brokers)
        child = os.fork()
        if not child:
            os._exit(int(brokers_for(settings) is brokers))
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_errors_pickle(self) -> None:
        """Spark takes them from workers to the driver."""
        place = TopicPartition("t", LATEST)
        for error in (
            ApiError(ErrorCode.CORRUPT_MESSAGE, "damaged"),
            OffsetLost(place, 1, 2, 3, "it has expired"),
            OffsetLost(place, 1, -1, -1, "the topic was deleted"),
            *(kind("why") for kind in (OptionError, Disconnected, RequestTimedOut, Unreachable, AuthenticationFailed)),
        ):
            copy = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(copy), str(copy)), (type(error), str(error)))
        self.assertIs(pickle.loads(pickle.dumps(ApiError(ErrorCode.NONE, "x"))).code, ErrorCode.NONE)
