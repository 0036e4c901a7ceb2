"""Throttled replication: token buckets, leaders and followers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cluster.replication.replication_throttle import (
    MAX_PAUSE_SECONDS,
    MIN_PAUSE_SECONDS,
    FollowerThrottle,
    TokenBucket,
    is_listed,
)
from logbus.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.cluster.follower.test_replica_fetcher import FetcherCase
from tests.cluster.test_leader import LeaderCase


class BucketTests(SynchronousTestCase):
    def test_burst_of_one_window(self) -> None:
        """A bucket gives one window's worth at once, may be overdrawn once, and pauses until that is made up for."""
        now = 0.0
        bucket = TokenBucket(lambda: 1000, lambda: now, 2.0)
        self.assertEqual(bucket.pause, 0)
        bucket.take(2500)
        self.assertEqual(bucket.pause, 0.5)
        now = 0.4
        self.assertAlmostEqual(bucket.pause, 0.1)
        now = 0.6
        self.assertEqual(bucket.pause, 0)
        now = 100.0
        bucket.take(2001)
        self.assertEqual(bucket.pause, MIN_PAUSE_SECONDS)

    def test_rates_change(self) -> None:
        """What is asked for is the rate of now; at a rate of 0 nothing moves, without one all does."""
        rate, now = 0, 0.0
        bucket = TokenBucket(lambda: rate, lambda: now)
        self.assertEqual(bucket.pause, MAX_PAUSE_SECONDS)
        rate, now = 10, 1.0
        self.assertEqual(bucket.pause, 0)
        bucket.take(1000)
        self.assertEqual(bucket.pause, MAX_PAUSE_SECONDS)
        free = TokenBucket()
        free.take(1 << 40)
        self.assertEqual(free.pause, 0)

    @given(st.integers(1, 10**6), st.lists(st.tuples(st.floats(0, 2), st.integers(0, 10**6)), max_size=50))
    def test_rate_is_kept(self, rate: int, moves: list[tuple[float, int]]) -> None:
        """In any sequence of transfers, all but the last are within the rate and one window."""
        now, moved = 0.0, 0
        bucket = TokenBucket(lambda: rate, lambda: now)
        for seconds, size in moves:
            now += seconds
            if bucket.pause == 0:
                self.assertLessEqual(moved, rate * (now + 1) + 1)
                bucket.take(size)
                moved += size

    def test_throttled_replicas(self) -> None:
        """All replicas by an asterisk, or each by partition and broker."""
        self.assertTrue(is_listed(("*",), 3, 4))
        self.assertTrue(is_listed(("1:2", "3:4"), 3, 4))
        self.assertFalse(is_listed(("3:40", "4:3"), 3, 4))


class FollowerTests(FetcherCase):
    """What a follower fetches is held to its rate while it is behind."""

    rate = 1000

    def setUp(self) -> None:
        super().setUp()
        self.fetcher._throttle = FollowerThrottle(TokenBucket(lambda: self.rate, self.clock.seconds))

    def test_only_lagging_replicas_are_throttled(self) -> None:
        """Bytes come at the rate while committed records are missing; those of an in-sync replica come at once."""
        led, replica = self.lead(), self.replica(follower_replication_throttled_replicas=("0:2",))
        self.leader.max_bytes = 1
        for _ in range(4):
            self.leader.append(led, bytes(900))
        self.leader.commit(led)
        self.follow(replica)
        ends = []
        for _ in range(40):
            ends.append(replica.log.log_end_offset)
            self.clock.advance(0.1)
        # One window and what overdraws it at once; another 970 bytes a second after that.
        self.assertEqual((ends[0], ends[5], ends[15], ends[25]), (2, 2, 3, 4))
        self.clock.advance(1)
        self.rate = 0
        for _ in range(2):
            self.leader.append(led, bytes(900))
            self.clock.advance(0.1)
        self.assertEqual(replica.log.log_end_offset, 6)

    def test_unlisted_replicas(self) -> None:
        """Replicas that are not listed are not throttled, and do not use up the rate."""
        self.rate = 0
        led, other = self.lead(0), self.lead(1)
        self.leader.append(led, b"a")
        self.leader.append(other, b"b")
        self.leader.commit(led)
        self.leader.commit(other)
        held = self.replica(0, follower_replication_throttled_replicas=("0:2", "1:3"))
        free = self.replica(1, follower_replication_throttled_replicas=("0:2", "1:3"))
        self.follow(held)
        self.follow(free)
        self.assertEqual((held.log.log_end_offset, free.log.log_end_offset), (0, 1))
        self.rate = 1000
        self.clock.pump([0.1] * 20)
        self.assertEqual(held.log.log_end_offset, 1)


class LeaderTests(LeaderCase):
    """What a leader sends is held to its rate, but not to those in sync; all by settings that change while it runs."""

    def configure(self, kind: int, name: str, **configs: str) -> None:
        changes = [
            IncrementalAlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
            for key, value in configs.items()
        ]
        resource = IncrementalAlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
        answer = self.ask(0, IncrementalAlterConfigsRequest(resources=[resource]), 1)
        self.assertEqual(answer.responses[0].error_code, 0, answer)
        self.cluster.settle(0.1)

    def end(self, broker_id: int) -> int:
        replica = self.cluster[broker_id].broker.replication.replicas.find("t", 0)
        assert replica is not None
        return replica.log.log_end_offset

    def test_held_back_until_the_rate_is_lifted(self) -> None:
        """A replica that comes back gets nothing at a rate of 0 while those in sync go on; then it gets everything."""
        self.create()
        self.cluster.kill(2)
        self.cluster.settle(3)
        self.produce()
        self.configure(2, "t", leader_replication_throttled_replicas="0:0")
        self.configure(4, "0", leader_replication_throttled_rate="0")
        self.cluster.boot(2)
        self.cluster.settle(3)
        self.produce()
        self.assertEqual((self.end(0), self.end(1), self.end(2)), (2, 2, 0))
        self.configure(4, "0", leader_replication_throttled_rate="1000000")
        self.cluster.settle(3)
        self.assertEqual(self.end(2), 2)

    def test_the_followers_own_rate(self) -> None:
        """The same at the follower's end."""
        self.create()
        self.configure(4, "2", follower_replication_throttled_rate="0")
        self.cluster.kill(2)
        self.cluster.settle(3)
        self.produce()
        self.configure(2, "t", follower_replication_throttled_replicas="*")
        self.cluster.boot(2)
        self.cluster.settle(3)
        self.produce()
        self.assertEqual((self.end(0), self.end(1), self.end(2)), (2, 2, 0))
        self.configure(4, "2", follower_replication_throttled_rate="1000000")
        self.cluster.settle(3)
        self.assertEqual(self.end(2), 2)
