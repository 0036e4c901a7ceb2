"""The mirrors that a cluster runs by itself, to have topics of others: each as :class:`.BrokerMirror` runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred, DeferredList

from logbus.broker.environment import Environment
from logbus.broker.mirror import BrokerMirror
from logbus.config import keys
from logbus.config.mirror_flows import mirror_flows
from logbus.errors import ConfigError
from logbus.metrics import Family, joined_families

if TYPE_CHECKING:
    from logbus.mirror.running_mirror import RunningMirror


class BrokerMirrors:
    """
    All of them. Nothing of mirrors and clients is imported if the keys ``mirror.…`` name no source.

    :param is_controller: whether this broker is the controller.
    :param addresses: where this broker listens for Kafka's protocol, once it does.
    :raises ConfigError: a key is wrong.
    """

    def __init__(
        self, env: Environment, is_controller: Callable[[], bool], addresses: Callable[[], Sequence[str]]
    ) -> None:
        self._claims: dict[tuple[str, str], str] = {}
        self._mirrors = [
            BrokerMirror(env, settings, is_controller, addresses, self._taken) for settings in mirror_flows(env.config)
        ]
        self._check_sources()
        if self._mirrors:
            env.registry.add_source(self._families)

    def running(self) -> list[RunningMirror]:
        """Those that run at this broker; also those that have failed, and will be tried again."""
        return [shown for each in self._mirrors if (shown := each.running()) is not None]

    def start(self) -> None:
        """Begin to look."""
        for each in self._mirrors:
            each.start()

    def stop(self) -> Deferred[list[tuple[bool, None]]] | None:
        """End the mirrors in order, while this broker still serves; after a while, in any case."""
        ending = [ended for each in self._mirrors if (ended := each.stop()) is not None]
        return DeferredList(ending) if ending else None

    def _check_sources(self) -> None:
        """
        :raises ConfigError: two clusters are called the same.
        """
        known: dict[str, BrokerMirror] = {}
        for each in self._mirrors:
            other = known.setdefault(each.options.source, each)
            if sorted(other.servers) != sorted(each.servers):
                name = each.settings.own_name(keys.MIRROR_SOURCE_NAME)
                raise ConfigError(
                    f"{name}: {each.options.source!r} is also what mirror.flow.{other.settings.flow} calls "
                    f"{','.join(other.servers)}; call each cluster differently"
                )

    def _taken(self, flow: str, source: str, topic: str) -> str | None:
        """Which mirror copies a topic, unless it is the one that asks; the first that does keeps it."""
        owner = self._claims.setdefault((source, topic), flow)
        return None if owner == flow else owner

    def _families(self) -> Iterable[Family]:
        return joined_families([each.families() for each in self._mirrors])
