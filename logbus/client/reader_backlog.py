"""The records that one reader of a broadcast has not taken yet, up to a bound. Pure."""

from __future__ import annotations

from collections import deque
from typing import Literal

from attrs import define, field

WhenBehind = Literal["drop", "skip"]


@define(eq=False)
class ReaderBacklog:
    """
    A queue of pieces of data that several readers share.

    :ivar most_records: how many may wait; ``most_bytes``: their size. One is always admitted.
    :ivar when_behind: ``skip``: the oldest make room for new ones; ``drop``: the reader has to go.
    :ivar size: bytes that wait.
    :ivar skipped: pieces that were skipped since the last :meth:`take`.
    """

    most_records: int
    most_bytes: int
    when_behind: WhenBehind
    size: int = field(default=0, init=False)
    skipped: int = field(default=0, init=False)
    _pieces: deque[bytes] = field(factory=deque, init=False)

    def __len__(self) -> int:
        return len(self._pieces)

    def put(self, data: bytes) -> bool:
        """
        Queue a piece.

        :returns: False: the reader is too far behind, and has to go.
        """
        self._pieces.append(data)
        self.size += len(data)
        while len(self._pieces) > 1 and (len(self._pieces) > self.most_records or self.size > self.most_bytes):
            if self.when_behind == "drop":
                return False
            self.size -= len(self._pieces.popleft())
            self.skipped += 1
        return True

    def take(self) -> tuple[int, bytes] | None:
        """The number of pieces skipped before the next one, and that; None: there is none."""
        if not self._pieces:
            return None
        skipped, self.skipped = self.skipped, 0
        data = self._pieces.popleft()
        self.size -= len(data)
        return skipped, data

    def clear(self) -> None:
        """Drop everything."""
        self._pieces.clear()
        self.size = self.skipped = 0
