"""``async with`` for what begins and ends, and a warning about what was not closed."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Self


class Lifetime:
    """Begins with :meth:`start` and ends with :meth:`close`, or both with ``async with``."""

    _is_closed = True

    async def start(self) -> Self:
        """Begin."""
        raise NotImplementedError

    async def close(self) -> None:
        """End, also what has not begun in full."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _warn_unclosed(self, name: str) -> None:
        """Warn, from ``__del__``."""
        self._is_closed = True
        warnings.warn(
            f"{name} was not closed; use 'async with', or await its close()",
            ResourceWarning,
            stacklevel=3,
            source=self,
        )
