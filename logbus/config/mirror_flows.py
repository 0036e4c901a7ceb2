"""
The settings of the mirrors that a broker runs: those of one, under its own names or those of all (``mirror.topics``,
``mirror.flow.paris.topics``).
"""

from __future__ import annotations

from typing import Any, TypeVar

from attrs import frozen

from logbus.config import keys
from logbus.config.config_key import ConfigKey
from logbus.config.config_view import ConfigView
from logbus.config.key_table import flow_key, flow_key_name

T = TypeVar("T")


@frozen
class FlowSettings:
    """
    The settings of one mirror.

    :ivar flow: its name; None: it is the only one, and has none.
    """

    _view: ConfigView
    flow: str | None

    def get(self, key: ConfigKey[T]) -> T:
        """Return a value."""
        name = self.name_of(key)
        return self._view.get(key) if name == key.name else key.parse(self._view.static[name], name)

    def name_of(self, key: ConfigKey[Any]) -> str:
        """Return the name under which a key is effective."""
        if self.flow is not None and (own := flow_key_name(self.flow, key)) in self._view.static:
            return own
        return key.name

    def own_name(self, key: ConfigKey[Any]) -> str:
        """Return the name by which a key would be set for this mirror only."""
        return key.name if self.flow is None else flow_key_name(self.flow, key)


def mirror_flows(view: ConfigView) -> list[FlowSettings]:
    """Return those of all mirrors; the keys are read-only, so that these stay as they are."""
    names = sorted({found[0] for name in view.static if (found := flow_key(name)) is not None})
    if names:
        return [FlowSettings(view, each) for each in names]
    return [FlowSettings(view, None)] if view.get(keys.MIRROR_SOURCE_BOOTSTRAP_SERVERS) else []
