"""
Settings that a test has by a marker: ``@pytest.mark.logbus({"num.partitions": 3})``, or ``...(num_partitions=3)``.

The keyword arguments of :class:`~logbus.testing.broker.Broker` and the clusters may be among them: ``brokers=5``,
``users={...}``.  Markers of classes and modules hold for their tests; the nearest one decides about a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

import pytest
from attrs import field, frozen

from logbus.errors import LogbusError
from logbus.testing.settings import Setting, as_texts

MARKER = "logbus"
TOPIC_MARKER = "logbus_topic"
FIXTURES = "logbus_"
"""What the names of all fixtures begin with."""

OPTIONS = {
    "a broker": ("users", "in_process", "controlled", "as_version", "timeout"),
    "a cluster": ("brokers", "racks", "as_version", "timeout"),
    "a cluster with ZooKeeper": ("brokers", "racks", "zookeepers", "as_version", "timeout"),
}
"""The keyword arguments that markers may have of each."""

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
    The settings in a test's markers.

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
    Refuse a test's own markers where the test has no broker or topic, or only brokers that others share.

    :raise BadMarker: it has no effect.
    """
    names: tuple[str, ...] = tuple(getattr(item, "fixturenames", ()))
    own = {marker.name for marker in item.own_markers}
    if not _may_ask_for_more(item, names):
        if TOPIC_MARKER in own and "logbus_topic" not in names:
            raise BadMarker("@pytest.mark.logbus_topic has no effect on a test without the fixture logbus_topic")
        if MARKER in own and not any(name.startswith(FIXTURES) for name in names):
            raise BadMarker("@pytest.mark.logbus has no effect on a test without a fixture such as logbus_broker")
    shared = [name for name in names if name in SHARED]
    if not shared or any(name in CHOSEN_BY_TEST for name in names):
        return
    for node, _ in item.iter_markers_with_node(MARKER):
        if not isinstance(node, pytest.Module | pytest.Package | pytest.Session):
            raise BadMarker(
                f"@pytest.mark.logbus has no effect on {shared[0]}, which other tests share; "
                "mark the module (pytestmark = pytest.mark.logbus(...)), or use logbus_broker"
            )


def _may_ask_for_more(item: pytest.Item, names: tuple[str, ...]) -> bool:
    """Whether the test, or a fixture of its project, has a request, by which it gets fixtures that it does not name."""
    if isinstance(item, pytest.Function) and "request" in signature(item.function).parameters:
        return True
    found = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    functions = [found[name][-1].func for name in names if name in found and not name.startswith(FIXTURES)]
    return any("request" in signature(each).parameters and "-packages" not in _file_of(each) for each in functions)


def _file_of(function: Any) -> str:
    """The file of a function."""
    return str(getattr(getattr(function, "__code__", None), "co_filename", ""))


def check_keys(config: Mapping[str, Setting]) -> dict[str, str]:
    """
    Settings as texts.

    :raise ConfigError: a key is unknown, with those that are nearly so named; or a value is not valid.
    """
    from logbus.config.setting_checks import check_static

    texts = as_texts(config)
    for name, text in texts.items():
        check_static(name, text)
    return texts


def _add(args: tuple[Any, ...], kwargs: Mapping[str, Any], found: Marked) -> None:
    if len(args) > 1 or not all(isinstance(each, Mapping) for each in args):
        raise TypeError(f"{args!r}: expected one dict such as {{'num.partitions': 3}}, and keyword arguments")
    options = {name: value for name, value in kwargs.items() if any(name in each for each in OPTIONS.values())}
    settings = {name: value for name, value in kwargs.items() if name not in options}
    both = as_texts(settings).keys() & as_texts(args[0] if args else {}).keys()
    if both:
        raise TypeError(f"{min(both)} is set twice")
    found.config.update(check_keys({**(args[0] if args else {}), **settings}))
    found.options.update(options)
