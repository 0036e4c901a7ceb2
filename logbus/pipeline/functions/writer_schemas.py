"""The writers' schemas that a worker has looked up, each once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from attrs import define, field

from logbus.pipeline.functions.column_function import Malformed

MISSING_FOR = 30.0
"""Seconds until a schema that cannot be used is requested again: a broker may not know a new one at once."""

MOST_MISSING = 1000


@define(eq=False)
class WriterSchemas:
    """
    A cache of what reads values of a schema, by the schema's id.

    :param clock: seconds.
    """

    clock: Callable[[], float] = time.monotonic
    _known: dict[int, Any] = field(factory=dict, init=False)
    _missing: dict[int, tuple[float, str]] = field(factory=dict, init=False)

    def get(self, schema_id: int, request: Callable[[], Any]) -> Any:
        """
        The result of ``request`` for this id.

        :raise Malformed: as ``request`` did, now or a short while ago.
        """
        found = self._known.get(schema_id)
        if found is not None:
            return found
        now = self.clock()
        asked, problem = self._missing.get(schema_id, (now - MISSING_FOR, ""))
        if now - asked < MISSING_FOR:
            raise Malformed(problem)
        try:
            found = self._known[schema_id] = request()
        except Malformed as e:
            if len(self._missing) >= MOST_MISSING:
                self._missing.clear()
            self._missing[schema_id] = now, str(e)
            raise
        return found
