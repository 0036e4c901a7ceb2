"""Logs topics that a member subscribes to and that do not exist."""

from __future__ import annotations

from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from logbus.client.background_tasks import BackgroundTasks
from logbus.client.cluster.cluster import Cluster
from logbus.client.membership.subscription import Subscription
from logbus.errors import ErrorCode, LogbusError

FIRST = 1.0
"""Seconds after the subscription for the first check; a new topic is not known to all brokers at once."""
AGAIN = 5.0
"""Seconds between checks while topics are missing."""
EVERY = 60.0
"""Seconds between log messages about the same topic."""

_PASSING = frozenset({ErrorCode.LEADER_NOT_AVAILABLE})


class MissingTopics:
    """
    Checks the topics of a subscription until all of them exist. Subscribing to a topic that is created later is not an
    error; but a misspelt name would never give records.
    """

    _log = Logger()

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._topics: tuple[str, ...] = ()
        self._told: dict[str, float] = {}
        self._timer: IDelayedCall | None = None
        self._looking = BackgroundTasks(lambda failure: self._log.failure("looking for topics failed", failure=failure))

    def watch(self, subscription: Subscription) -> None:
        """Check the topics of this subscription from now on; a pattern has no missing topics."""
        self.stop()
        self._topics = subscription.topics
        if self._topics:
            self._look_in(FIRST)

    def stop(self) -> None:
        """Stop checking."""
        self._topics = ()
        self._told.clear()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        self._looking.cancel()

    def _look_in(self, seconds: float) -> None:
        self._timer = self._cluster.reactor.callLater(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        self._looking.start(self._ask())

    async def _ask(self) -> None:
        topics = self._topics
        try:
            errors = await self._cluster.refresh_topics(topics)
        except LogbusError as e:
            self._log.debug("group {group}: {error}", group=self._group_id, error=e)
            errors = None
        if topics is not self._topics:
            return
        if errors is None:
            self._look_in(AGAIN)
            return
        missing = {name: error for name in topics if (error := errors.get(name)) is not None}
        now = self._cluster.reactor.seconds()
        for name, error in missing.items():
            if error.code not in _PASSING and now - self._told.get(name, now - EVERY) >= EVERY:
                self._told[name] = now
                self._log.warn(
                    "group {group}: nothing is read of topic {topic}, which the consumer subscribes to: {error}",
                    group=self._group_id,
                    topic=name,
                    error=error,
                )
        for name in [name for name in self._told if name not in missing]:
            del self._told[name]
            self._log.info("group {group}: topic {topic} is there now", group=self._group_id, topic=name)
        if missing:
            self._look_in(AGAIN)
