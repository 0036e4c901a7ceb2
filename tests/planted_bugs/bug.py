"""A planted bug: a change of the product, and the runs or the test that must find it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from attrs import frozen

from logbus.testing.simulation.settings import Settings


@frozen
class Bug:
    """
    :ivar changes: object, attribute, and what is there instead.
    :ivar settings: of the runs that are to find it; ``seeds``: how many of them it may take; ``first``: the seed to
        begin with, as it found the bug when this was written.
    :ivar test: which finds it, where faults would have to come in so rare an order that few seeds have it.
    """

    changes: tuple[tuple[Any, str, Any], ...]
    settings: Settings | None = None
    seeds: int = 0
    first: int = 1
    test: str = ""

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The product has the bug meanwhile."""
        with ExitStack() as stack:
            for where, name, instead in self.changes:
                stack.enter_context(patch.object(where, name, instead))
            yield
