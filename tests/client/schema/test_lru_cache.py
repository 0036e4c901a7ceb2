"""The bounded cache."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.schema.lru_cache import LruCache


class LruCacheTests(SynchronousTestCase):
    def test_least_recently_used_entry_is_dropped(self) -> None:
        """
        There never is more than the limit.
        """
        recent: LruCache[int, int] = LruCache(2)
        recent.put(1, 1)
        recent.put(2, 2)
        recent.get(1)
        recent.put(3, 3)
        self.assertEqual([recent.get(each) for each in (1, 2, 3)], [1, None, 3])
