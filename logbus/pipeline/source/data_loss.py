"""Reports offsets that are gone, as found when a batch is planned: as an error, or in the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from attrs import define, field

from logbus.pipeline.errors import DataLossFound

_NAMED = 10
"""Losses that a message names."""

_log = logging.getLogger(__name__)


@define
class DataLossReport:
    """
    Reports the losses of one reader. Spark asks for the end of a batch, and then for its tasks, maybe several times:
    a loss is logged once.

    :param fails: whether a loss is an error (``failOnDataLoss``).
    :param setting: how the user allows it, for the error.
    """

    fails: bool
    setting: str = "the option failOnDataLoss=false"
    _logged: Sequence[str] = field(default=(), init=False)

    def report(self, sentences: Sequence[str]) -> None:
        """
        :param sentences: all losses of the batch.
        :raises DataLossFound: there are some, and they are an error.
        """
        if self.fails and sentences:
            raise DataLossFound(f"data are lost: {_joined(sentences)}; with {self.setting} what is left is read")
        if new := [each for each in sentences if each not in self._logged]:
            _log.warning("data are lost: %s", _joined(new))
        self._logged = sentences


def _joined(sentences: Sequence[str]) -> str:
    more = f"; and {len(sentences) - _NAMED} more" if len(sentences) > _NAMED else ""
    return "; ".join(sentences[:_NAMED]) + more
