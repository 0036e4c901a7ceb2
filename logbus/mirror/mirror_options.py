"""The options of a mirror (Kafka: MirrorSourceConfig, MirrorCheckpointConfig), checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from attrs import field, frozen
from attrs.validators import optional

from logbus.client.validators import InvalidOption, checked, choice, flag, integer, seconds, shown
from logbus.mirror.name_filter import GROUPS_EXCLUDED, TOPICS_EXCLUDED, NameFilter
from logbus.mirror.replication_policy import Naming, ReplicationPolicy

_ALIAS = re.compile(r"[A-Za-z0-9_-]{1,100}")

Taken = Callable[[str], str | None]
"""Tells which other mirror copies a topic of the source; None: no other."""
OnRecreated = Literal["stop", "continue"]
OnTooLarge = Literal["stop", "skip"]


def nobody(topic: str) -> None:
    """There is no other mirror."""


def check_alias(name: str, value: object) -> None:
    """
    Check what a cluster is called.

    :raises InvalidOption: this cannot become a part of topics' names.
    """
    if not isinstance(value, str) or not _ALIAS.fullmatch(value):
        raise InvalidOption(
            f"{name} is {shown(value)}; a cluster's alias has letters, digits, - and _ only, since it becomes a part "
            "of topics' names: such as 'paris'"
        )


def check_flow(name: str, value: object) -> None:
    """
    Check what a mirror is called.

    :raises InvalidOption: it is no such name.
    """
    if not isinstance(value, str) or not _ALIAS.fullmatch(value):
        raise InvalidOption(f"{name} is {shown(value)}; a mirror's name has letters, digits, - and _ only")


def check_aliases(source: str, target: str, names: str = "source and target") -> None:
    """
    Check that two clusters are called differently.

    :param names: of the two options.
    :raises InvalidOption: they are not.
    """
    if source == target:
        raise InvalidOption(
            f"{names} are both {source!r}; give each cluster an alias of its own, which stays the same in all mirrors"
        )


@frozen(kw_only=True)
class MirrorOptions:
    """
    One flow.

    :ivar source: the source's alias, the prefix of its topics at the target.
    :ivar target: the target's alias, by which its own topics are recognised when they come back.
    :ivar name: the mirror's, if there are several between the clusters, each with topics of its own.
    :ivar naming: how topics are named at the target.
    :ivar topics: which topics of the source are copied.
    :ivar groups: whose offsets are translated.
    :ivar sync_groups: commit translated offsets at the target for groups that have no members there.
    :ivar sync_settings: copy settings of topics, and changes of them.
    :ivar sync_acls: give rights on copies to those who have them on the source's topics, but for writing.
    :ivar start: where to begin in a partition of which nothing was copied yet.
    :ivar on_recreated: what to do with a source's topic that was deleted and created anew.
    :ivar on_too_large: what to do about a record that is larger than the target takes: stop its partition until it
        takes it, or leave it out.
    :ivar replication_factor: of topics that are created; None: the source's, or as many brokers as there are.
    :ivar rate: at most so many bytes per second; None: as many as possible.
    :ivar interval: seconds that a transaction may collect records.
    :ivar transaction_bytes: the most bytes in one.
    :ivar refresh_interval: seconds after which topics are looked up again.
    :ivar checkpoint_interval: seconds between checkpoints of groups; 0: none.
    :ivar heartbeat_interval: seconds between heartbeats; 0: none.
    :ivar until_end: end when all that is there at the beginning is copied.
    :ivar of_broker: whether the options are keys of a broker, which lines to users name, then.
    """

    source: str = field(default="source", validator=checked(check_alias))
    target: str = field(default="target", validator=checked(check_alias))
    name: str | None = field(default=None, validator=optional(checked(check_flow)))
    naming: Naming = field(default=Naming.PREFIX, converter=Naming)
    topics: NameFilter = field(factory=lambda: NameFilter([".*"], TOPICS_EXCLUDED))
    groups: NameFilter = field(factory=lambda: NameFilter([".*"], GROUPS_EXCLUDED))
    sync_groups: bool = field(default=False, validator=checked(flag))
    sync_settings: bool = field(default=True, validator=checked(flag))
    sync_acls: bool = field(default=False, validator=checked(flag))
    start: Literal["earliest", "latest"] = field(
        default="earliest", validator=checked(choice, choices=("earliest", "latest"))
    )
    on_recreated: OnRecreated = field(default="stop", validator=checked(choice, choices=("stop", "continue")))
    on_too_large: OnTooLarge = field(default="stop", validator=checked(choice, choices=("stop", "skip")))
    replication_factor: int | None = field(default=None, validator=optional(checked(integer, least=1)))
    rate: int | None = field(default=None, validator=optional(checked(integer, least=1)))
    interval: float = field(default=1.0, validator=checked(seconds, positive=True))
    transaction_bytes: int = field(default=32 * 1024 * 1024, validator=checked(integer, least=1))
    refresh_interval: float = field(default=30.0, validator=checked(seconds, positive=True))
    checkpoint_interval: float = field(default=10.0, validator=checked(seconds))
    heartbeat_interval: float = field(default=5.0, validator=checked(seconds))
    until_end: bool = field(default=False, validator=checked(flag))
    of_broker: bool = field(default=False, validator=checked(flag), eq=False)

    def __attrs_post_init__(self) -> None:
        check_aliases(self.source, self.target)

    @property
    def policy(self) -> ReplicationPolicy:
        """The policy by which topics are named."""
        return ReplicationPolicy(self.source, self.target, self.naming)

    @property
    def flow(self) -> str:
        """Its name, such as ``paris-to-rome`` if it was given none."""
        return self.name or f"{self.source}-to-{self.target}"

    def said(self, option: str, value: str = "") -> str:
        """
        The form in which a user gives an option.

        :param option: its name for the command, such as ``on-too-large``; a broker's is ``mirror.on.too.large``.
        """
        if not self.of_broker:
            return f"--{option} {value}".rstrip()
        key, equals = "mirror." + option.replace("-", "."), "=" if value else ""
        return f"{key}{equals}{value}"

    @property
    def transactional_id(self) -> str:
        """The id that only one running mirror of this flow can use."""
        clusters = f"logbus-mirror-{self.source}-to-{self.target}"
        return clusters if self.name is None else f"{clusters}.{self.name}"
