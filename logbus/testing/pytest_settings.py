"""
Settings that a test has by a marker: ``@pytest.mark.logbus({"num.partitions": 3})``, or ``...(num_partitions=3)``.

The keyword arguments of :class:`~logbus.testing.broker.Broker` and the clusters may be among them: ``brokers=5``,
``users={...}``.  Markers of classes and modules hold for their tests; the nearest one decides about a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import field, frozen

from logbus.errors import LogbusError
from logbus.testing.settings import Setting, as_texts

MARKER = "logbus"

BROKER_OPTIONS = ("users", "in_process", "timeout")
CLUSTER_OPTIONS = ("brokers", "racks", "timeout")

CHOSEN_BY_TEST = ("logbus_broker", "logbus_cluster", "logbus_zookeeper_cluster")
"""The fixtures that have a test's own marker."""
SHARED = (
    "logbus_module_broker",
    "logbus_session_broker",
    "logbus_module_cluster",
    "logbus_session_cluster",
)


@frozen
class Marked:
    """
    What markers say.

    :ivar config: texts by Kafka's names.
    :ivar options: keyword arguments of a broker or a cluster.
    """

    config: dict[str, str] = field(factory=dict)
    options: dict[str, Any] = field(factory=dict)


def marked(node: Any, allowed: tuple[str, ...], what: str) -> Marked:
    """
    The settings of a node's markers.

    :param allowed: names of options.
    :param what: the broker or cluster, for errors.
    :raise BadMarker: names the marker's argument, and what would be right.
    """
    found = Marked()
    # The nearest one comes first.
    for marker in reversed(list(node.iter_markers(MARKER))):
        try:
            _add(marker.args, marker.kwargs, found)
        except (LogbusError, TypeError) as e:
            raise BadMarker(f"@pytest.mark.logbus: {e}") from None
    for name in found.options:
        if name not in allowed:
            raise BadMarker(f"@pytest.mark.logbus: {name} is not for {what}, which takes {', '.join(allowed)}")
    return found


class BadMarker(LogbusError):
    """A marker has something that it should not have."""


def check_effect(item: pytest.Item) -> None:
    """
    Refuse a test's own marker where the test only has brokers that others share.

    :raise BadMarker: it has no effect.
    """
    names: tuple[str, ...] = tuple(getattr(item, "fixturenames", ()))
    shared = [name for name in names if name in SHARED]
    if not shared or any(name in CHOSEN_BY_TEST for name in names):
        return
    for node, _ in item.iter_markers_with_node(MARKER):
        if not isinstance(node, pytest.Module | pytest.Package | pytest.Session):
            raise BadMarker(
                f"@pytest.mark.logbus has no effect on {shared[0]}, which other tests share; "
                "mark the module (pytestmark = pytest.mark.logbus(...)), or use logbus_broker"
            )


def check_keys(config: Mapping[str, Setting]) -> dict[str, str]:
    """
    Settings as texts.

    :raise ConfigError: a key is unknown, with those that are nearly so named; or a value is not valid.
    """
    from logbus.config.config_view import check_static

    texts = as_texts(config)
    for name, text in texts.items():
        check_static(name, text)
    return texts


def _add(args: tuple[Any, ...], kwargs: Mapping[str, Any], found: Marked) -> None:
    if len(args) > 1 or not all(isinstance(each, Mapping) for each in args):
        raise TypeError(f"{args!r}: expected one dict such as {{'num.partitions': 3}}, and keyword arguments")
    options = {name: value for name, value in kwargs.items() if name in {*BROKER_OPTIONS, *CLUSTER_OPTIONS}}
    settings = {name: value for name, value in kwargs.items() if name not in options}
    both = as_texts(settings).keys() & as_texts(args[0] if args else {}).keys()
    if both:
        raise TypeError(f"{min(both)} is set twice")
    found.config.update(check_keys({**(args[0] if args else {}), **settings}))
    found.options.update(options)
