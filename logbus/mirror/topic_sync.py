"""Finds the source's topics, creates their copies at the target, and adapts their partitions and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field, frozen

from logbus.client.admin.admin_client import AdminClient, NewTopic
from logbus.client.admin.config_admin import ConfigEntry, Resource, ResourceType
from logbus.client.cluster.cluster import Cluster, TopicMetadata
from logbus.errors import ApiError, ConfigError, ErrorCode, LogbusError
from logbus.mirror.acl_rules import copied_acls
from logbus.mirror.copied_range import TopicIds
from logbus.mirror.mirror_options import MirrorOptions
from logbus.mirror.mirror_status import MirrorStatus
from logbus.mirror.missing_rights import lacks
from logbus.mirror.refused_settings import alter_without_refused, create_without_refused, shown_settings
from logbus.mirror.replication_policy import HEARTBEATS, is_internal, topic_path
from logbus.mirror.topic_settings import changed_settings, copied_settings
from logbus.security.acl.acls import AclBindingFilter
from logbus.security.acl.acls import ResourceType as AclResourceType

COMPACTED = {"cleanup.policy": "compact"}
_INTERNAL_REPLICAS = 3


@frozen
class MirroredTopic:
    """
    A topic that is copied.

    :ivar name: at the source.
    :ivar copy: its name at the target.
    :ivar partitions: how many are copied: all that the source has, unless the copy has fewer.
    """

    name: str
    copy: str
    partitions: int
    ids: TopicIds


def check_different(source: Cluster, target: Cluster, advice: str) -> None:
    """
    Check that two clusters whose ids are known are not the same.

    :param advice: what follows from it, and what would be right.
    :raises ConfigError: they are.
    """
    if source.cluster_id is not None and source.cluster_id == target.cluster_id:
        raise ConfigError(f"source and target are the same cluster, {source.cluster_id}, {advice}")


@define(eq=False)
class TopicSync:
    """Keeps the target's topics like the source's; what is not possible is a problem of the topic."""

    source: Cluster
    target: Cluster
    options: MirrorOptions
    status: MirrorStatus
    _reported: set[object] = field(factory=set, init=False)

    async def refresh(self) -> dict[str, MirroredTopic]:
        """
        Look up and adapt all topics.

        :returns: those that can be copied, by their names at the source.
        :raises LogbusError: a side cannot be asked.
        """
        wanted = await self.wanted()
        if not wanted:
            self._say_nothing_is_wanted()
        await self._adapt(wanted)
        if wanted and self.options.sync_settings:
            await self._adapt_settings(wanted)
        copies = {each.name: each for each in await self.target.topics()}
        policy, found = self.options.policy, dict[str, MirroredTopic]()
        for name, topic in wanted.items():
            copy = copies.get(policy.remote_topic(name))
            if copy is None:
                continue
            ours, theirs = len(copy.partitions), len(topic.partitions)
            found[name] = MirroredTopic(name, copy.name, min(ours, theirs), TopicIds(topic.topic_id, copy.topic_id))
            if ours >= theirs:
                self.status.solved(f"topic {name}")
            if ours > theirs and (name, ours, theirs) not in self._reported:
                self._reported.add((name, ours, theirs))
                self.status.say(
                    f"topic {name}: {copy.name} has {ours} partitions, and {name} has {theirs}: nothing is copied into "
                    "the others, and readers that look for a key by its partition do not find it"
                )
        if self.options.sync_acls and found:
            await self._copy_acls({each.name: each.copy for each in found.values()})
        return found

    def _say_nothing_is_wanted(self) -> None:
        none = (
            f"there is no topic to copy: {self.options.said('topics')} matches none that {self.source.principal} may "
            f"DESCRIBE at the source {self.options.source}"
        )
        if self.options.until_end and not self.status.topics:
            # A mistyped name would look like success: nothing waits for the topic. One that went meanwhile is told of.
            self.status.problem("topics", none)
        elif not self._reported:
            self._reported.add("")
            self.status.say(none)

    async def wanted(self) -> dict[str, TopicMetadata]:
        """
        The source's topics that are to be copied, by name.

        :raises LogbusError: the source cannot be asked.
        """
        return {each.name: each for each in await self.source.topics() if self._is_wanted(each)}

    async def create_internal(self, *names: str) -> None:
        """
        Create compacted topics of one partition, unless they exist.

        :raises ApiError: the target refuses.
        """
        await self.target.refresh()
        replicas = max(1, min(_INTERNAL_REPLICAS, len(self.target.nodes)))
        admin = AdminClient(self.target)
        known = {each.name for each in await self.target.topics()}
        new = [NewTopic(each, 1, replicas, COMPACTED) for each in names if each not in known]
        for error in (await admin.create_topics(new)).values() if new else ():
            if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error

    @property
    def _no_settings(self) -> str:
        of_broker = self.options.of_broker
        return self.options.said("sync-settings", "false") if of_broker else self.options.said("no-sync-settings")

    def _is_wanted(self, topic: TopicMetadata) -> bool:
        policy, name = self.options.policy, topic.name
        if topic.internal or is_internal(name):
            return False
        is_heartbeats = topic_path(name)[-1] == HEARTBEATS and self.options.heartbeat_interval > 0
        if not self.options.topics.allows(name) and not is_heartbeats:
            return False
        if policy.is_loop(name):
            if name not in self._reported:
                self._reported.add(name)
                self.status.say(f"topic {name}: not copied, since its records come from {policy.target}")
            return False
        return True

    async def _adapt(self, wanted: Mapping[str, TopicMetadata]) -> None:
        """Create what is missing, and add partitions."""
        policy = self.options.policy
        copies = {each.name: each for each in await self.target.topics()}
        admin = AdminClient(self.target)
        missing = [each for each in wanted.values() if policy.remote_topic(each.name) not in copies]
        settings = await self._settings(self.source, [each.name for each in missing])
        names = {policy.remote_topic(each.name): each.name for each in wanted.values()}
        new = [
            NewTopic(
                policy.remote_topic(each.name),
                len(each.partitions),
                self._replicas(each),
                copied_settings(settings.get(each.name, ())),
            )
            for each in missing
        ]
        answers = await admin.create_topics(new) if new else {}
        for each in new:
            copy, error, without = each.name, answers[each.name], ""
            if error is not None and error.code is ErrorCode.INVALID_CONFIG:
                error, refused = await create_without_refused(admin, each)
                if refused and error is None:
                    lacking = shown_settings({name: each.configs[name] for name in refused})
                    without = f", without {lacking}, which the target {self.options.target} does not take"
            if error is None:
                self.status.say(f"topic {names[copy]}: created {copy} with {each.partitions} partitions{without}")
            elif error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                self._problem(names[copy], copy, f"{copy} cannot be created at the target", error, "CREATE")
        more = {
            copy: len(wanted[name].partitions)
            for copy, name in names.items()
            if copy in copies and len(copies[copy].partitions) < len(wanted[name].partitions)
        }
        for copy, error in (await admin.create_partitions(more)).items() if more else ():
            if error is None:
                self.status.say(f"topic {names[copy]}: {copy} has {more[copy]} partitions now")
            else:
                what = f"only its partitions below {len(copies[copy].partitions)} are copied, since {copy} cannot get"
                self._problem(names[copy], copy, f"{what} {more[copy]} partitions", error, "ALTER")

    async def _adapt_settings(self, wanted: Mapping[str, TopicMetadata]) -> None:
        policy = self.options.policy
        theirs = await self._settings(self.source, wanted)
        admin = AdminClient(self.target)
        ours = await self._settings(self.target, [policy.remote_topic(name) for name in theirs])
        changes: dict[Resource, dict[str, str | None]] = {}
        for name, entries in theirs.items():
            copy = policy.remote_topic(name)
            if copy in ours and (change := changed_settings(copied_settings(entries), ours[copy])):
                changes[Resource(ResourceType.TOPIC, copy)] = change
            else:
                self.status.solved(f"settings of {copy}")
        try:
            answers = await admin.alter_configs(changes) if changes else {}
        except ApiError as e:
            if e.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            self.status.problem("settings", f"changes of settings are not copied: {e}; {self._no_settings} leaves them")
            return
        for resource, error in answers.items():
            made, refused = changes[resource], dict[str, ApiError]()
            if error is not None and error.code is ErrorCode.INVALID_CONFIG:
                refused = await alter_without_refused(admin, resource, made)
                made = {name: value for name, value in made.items() if name not in refused}
                error = None
            if error is None:
                if made:
                    self.status.say(f"topic {resource.name}: settings as at the source: {shown_settings(made)}")
                self._note_refused(resource.name, changes[resource], refused)
            else:
                why = str(error)
                if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    where = f"the target {self.options.target}"
                    why = lacks(self.target, "ALTER_CONFIGS", f"topic {resource.name}", where)
                self.status.problem(
                    f"settings of {resource.name}",
                    f"topic {resource.name}: its settings stay as they are: {why}; {self._no_settings} leaves them",
                )

    def _note_refused(self, copy: str, changes: Mapping[str, str | None], refused: Mapping[str, ApiError]) -> None:
        """Tell of settings that a copy does not have, since the target does not take them."""
        what = f"settings of {copy}"
        if not refused:
            self.status.solved(what)
            return
        whys = "; ".join(str(error) for error in refused.values())
        lacking = shown_settings({name: changes[name] for name in refused})
        self.status.problem(
            what,
            f"topic {copy}: the target {self.options.target} does not take {lacking}: {whys}; its records are copied, "
            f"and {self._no_settings} leaves its settings",
        )

    async def _copy_acls(self, copies: Mapping[str, str]) -> None:
        """Create the ACLs of copies that are not there yet."""
        topics = AclBindingFilter(resource_type=AclResourceType.TOPIC)
        try:
            wanted = copied_acls(await AdminClient(self.source).describe_acls(topics), copies)
            admin = AdminClient(self.target)
            missing = wanted - set(await admin.describe_acls(topics)) if wanted else set()
            failed = [error for error in (await admin.create_acls(missing)).values() if error] if missing else []
            if failed:
                raise failed[0]
        except ApiError as e:
            self.status.problem(
                "ACLs", f"ACLs are not copied: {e}; the mirror needs DESCRIBE on the source, and ALTER on the target"
            )
            return
        self.status.solved("ACLs")
        if missing:
            self.status.say(f"{len(missing)} ACLs of the source's topics are those of their copies now")

    async def number_of_copy(self, copy: str, setting: str) -> int | None:
        """A setting of a topic of the target that is a number; None: it cannot be told."""
        try:
            resource = Resource(ResourceType.TOPIC, copy)
            entries = (await AdminClient(self.target).describe_configs([resource]))[resource]
        except LogbusError:
            return None
        if isinstance(entries, ApiError):
            return None
        return next((int(each.value) for each in entries if each.name == setting and each.value is not None), None)

    async def _settings(self, cluster: Cluster, names: Iterable[str]) -> dict[str, list[ConfigEntry]]:
        """The settings of topics, without those that cannot be read."""
        resources = [Resource(ResourceType.TOPIC, each) for each in names]
        answers = await AdminClient(cluster).describe_configs(resources) if resources else {}
        side = f"source {self.options.source}" if cluster is self.source else f"target {self.options.target}"
        for resource, entries in answers.items():
            what = f"settings of {resource.name} at the {side}"
            if isinstance(entries, ApiError) and entries.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                missing = lacks(cluster, "DESCRIBE_CONFIGS", f"topic {resource.name}", f"the {side}")
                self.status.problem(what, f"topic {resource.name}: its settings are not copied: {missing}")
            elif not isinstance(entries, ApiError):
                self.status.solved(what)
        return {resource.name: entries for resource, entries in answers.items() if not isinstance(entries, ApiError)}

    def _replicas(self, topic: TopicMetadata) -> int:
        if self.options.replication_factor is not None:
            return self.options.replication_factor
        theirs = max((len(each.replicas) for each in topic.partitions.values()), default=1)
        return max(1, min(theirs, len(self.target.nodes)))

    def _problem(self, name: str, copy: str, what: str, error: ApiError, operation: str) -> None:
        why = str(error)
        if error.code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            why = lacks(self.target, operation, f"topic {copy}", f"the target {self.options.target}")
        elif error.code is ErrorCode.INVALID_REPLICATION_FACTOR:
            why += f"; {self.options.said('replication-factor')} gives another number of replicas"
        self.status.problem(f"topic {name}", f"topic {name}: {what}: {why}")
