"""
Punctuations: rows without a record that only advance the watermark of a stream.

Spark advances a watermark by the times of rows. Where it should advance and there is no record to do that, such as at
the end of a backlog, the source adds a row with the wanted time (:mod:`~logbus.pipeline.jobs.event_source`). The row
passes the watermark's operator and is left out behind it. The driver writes the time to a file, from which the process
that plans batches reads it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from attrs import frozen

OWN = "_logbus_"
"""What the names of columns that jobs add to those of events begin with, so that an event's can have any other."""

PUNCTUATION = f"{OWN}punctuation"
"""The column with the time of a punctuation in microseconds since 1970; null in rows of records."""

LOST = f"{OWN}lost"
"""The column with the number of offsets that were gone; null in rows of records, and of other punctuations."""

NO_TOPIC = ""
"""The column ``topic`` of a punctuation."""

BEFORE_ALL = 0
"""The time of a punctuation that advances no watermark, in microseconds since 1970."""


@frozen
class PunctuationFile:
    """
    A local file of the driver with the next punctuation of a stream.

    :ivar path: there is none if the file does not exist.
    """

    path: Path

    def set(self, micros: int) -> None:
        """Ask for a punctuation with this event time, in microseconds since 1970, instead of records."""
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps(micros))
        os.replace(draft, self.path)

    def clear(self) -> None:
        """Ask for records again."""
        self.path.unlink(missing_ok=True)

    def read(self) -> int | None:
        """The time; None: records are to be read."""
        try:
            return int(json.loads(self.path.read_text()))
        except FileNotFoundError:
            return None
