"""A resource that a test starts, and closes at the end of a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closable(ABC):
    """Starts at the beginning of a ``with`` block, and is closed at its end, also where it does not start."""

    @abstractmethod
    def start(self) -> Self:
        """Start, and wait until it serves."""

    @abstractmethod
    def close(self) -> None:
        """End it for good."""

    def refuse_nesting(self) -> None:  # noqa: B027
        """Raise if it has been started: the end of a second ``with`` block would close what the first one has."""

    def __enter__(self) -> Self:
        self.refuse_nesting()
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()
