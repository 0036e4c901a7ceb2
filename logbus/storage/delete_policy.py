"""Finds the policy of deletion by its name (``log.delete.policy``)."""

from __future__ import annotations

from collections.abc import Iterable

from twisted.plugin import getPlugins

from logbus.errors import ConfigError
from logbus.storage.istorage import IDeletePolicy
from logbus.storage.retention import TimeAndSize


def delete_policy(name: str, plugins: Iterable[IDeletePolicy] | None = None) -> IDeletePolicy:
    """
    The policy called ``name``: the built-in one, or a plugin's.

    :param plugins: the available ones; None: all that :mod:`twisted.plugin` finds.
    :raises ConfigError: there is none of that name.
    """
    built_in = TimeAndSize()
    if name == built_in.name:
        return built_in
    found = {policy.name: policy for policy in (getPlugins(IDeletePolicy) if plugins is None else plugins)}
    if name not in found:
        known = ", ".join(sorted([built_in.name, *found]))
        raise ConfigError(f"log.delete.policy: there is no policy {name!r}; there are: {known}")
    return found[name]
