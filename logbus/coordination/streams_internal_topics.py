"""
Creates the repartition and changelog topics of Kafka Streams applications (KIP-1071; Kafka: AutoTopicCreationManager).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from logbus.cluster.controller.topic_plan import DEFAULT, NewTopic
from logbus.cluster.topic_admin_forwarder import TopicAdminForwarder
from logbus.coordination.streams.topology import InternalTopic
from logbus.errors import ApiError, ErrorCode

CREATE_TIMEOUT_MS = 30_000

MAX_REMEMBERED = 10_000
"""Limit of the topics whose errors are remembered."""


@define(eq=False)
class StreamsInternalTopics:
    """
    Creates topics while heartbeats go on. A topic is created once at a time, and not again soon after an error, which
    heartbeats tell meanwhile.
    """

    _topics: TopicAdminForwarder
    _clock: IReactorTime
    _under_way: set[str] = field(factory=set, init=False)
    _errors: dict[str, tuple[float, str]] = field(factory=dict, init=False)
    _log = Logger()

    def create(self, topics: Collection[InternalTopic], retry_s: float) -> None:
        """
        Begin to create topics.

        :param retry_s: for how long errors are told, and nothing is tried again.
        """
        now = self._clock.seconds()
        if len(self._errors) > MAX_REMEMBERED:
            self._errors = {name: error for name, error in self._errors.items() if error[0] > now}
        wanted = [
            _new_topic(topic)
            for topic in topics
            if topic.name not in self._under_way and self._errors.get(topic.name, (now, ""))[0] <= now
        ]
        if wanted:
            self._under_way.update(topic.name for topic in wanted)
            Deferred.fromCoroutine(self._create(wanted, retry_s))

    def errors(self, names: Collection[str]) -> dict[str, str]:
        """The errors of topics that could not be created lately, by name."""
        now = self._clock.seconds()
        found = {name: self._errors[name] for name in names if name in self._errors}
        return {name: message for name, (until, message) in found.items() if until > now}

    async def _create(self, wanted: Sequence[NewTopic], retry_s: float) -> None:
        names = [topic.name for topic in wanted]
        errors: dict[str, str] = {}
        try:
            outcomes = await self._topics.create_topics(wanted, timeout_ms=CREATE_TIMEOUT_MS)
            for name, outcome in zip(names, outcomes, strict=True):
                if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    errors[name] = outcome.message
        except ApiError as error:
            errors = dict.fromkeys(names, error.message)
        except Exception as error:
            self._log.failure("internal topics cannot be created")
            errors = dict.fromkeys(names, repr(error))
        self._under_way.difference_update(names)
        until = self._clock.seconds() + retry_s
        for name in names:
            self._errors.pop(name, None)
            if name in errors:
                self._errors[name] = (until, errors[name])
                self._log.warn("the internal topic {topic} cannot be created: {why}", topic=name, why=errors[name])


def _new_topic(topic: InternalTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        num_partitions=topic.partitions or DEFAULT,
        replication_factor=topic.replication_factor or DEFAULT,
        configs=dict(topic.configs),
    )
