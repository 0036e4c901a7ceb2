"""
The names of mirrored topics (Kafka: ReplicationPolicy, KIP-382), and the topics that would go round in a loop. Pure.

With the policy ``prefix`` topic ``orders`` of cluster ``here`` becomes ``here.orders``: names show where records come
from, so that two clusters can mirror each other. With ``identity`` it keeps its name.
"""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

HEARTBEATS = "heartbeats"
SEPARATOR = "."


class Naming(StrEnum):
    """The names of a source's topics at the target."""

    PREFIX = "prefix"
    IDENTITY = "identity"


@frozen
class ReplicationPolicy:
    """
    Names of one flow.

    :ivar source: the source's alias.
    :ivar target: the target's alias.
    """

    source: str
    target: str
    naming: Naming = Naming.PREFIX

    def remote_topic(self, topic: str) -> str:
        """
        The name at the target of a topic of the source. Heartbeats always have a prefix, by which
        ``RemoteClusterUtils`` finds the clusters upstream.
        """
        if self.naming is Naming.IDENTITY and topic_path(topic)[-1] != HEARTBEATS:
            return topic
        return f"{self.source}{SEPARATOR}{topic}"

    def is_loop(self, topic: str) -> bool:
        """Whether the name of a topic of the source says that its records came from the target."""
        return self.naming is Naming.PREFIX and self.target in topic_path(topic)[:-1]

    @property
    def offset_syncs_topic(self) -> str:
        """The target's topic of offset syncs."""
        return f"mm2-offset-syncs.{self.source}.internal"

    @property
    def skipped_records_topic(self) -> str:
        """The target's topic of records that were left out; a topic of logbus."""
        return f"logbus-mirror-skipped.{self.source}.internal"

    @property
    def checkpoints_topic(self) -> str:
        """The target's topic of checkpoints."""
        return f"{self.source}.checkpoints.internal"


def topic_path(topic: str) -> list[str]:
    """The aliases that a name has before that of the original topic, and that name: ``["b", "a", "orders"]``."""
    return topic.split(SEPARATOR)


def is_internal(topic: str) -> bool:
    """Whether a topic is one of brokers, mirrors or Kafka Connect, which are not mirrored."""
    return topic.startswith(("__", ".")) or topic.endswith((".internal", "-internal"))
