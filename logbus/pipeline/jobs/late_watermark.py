"""
The watermark by which Spark drops late events, in a file, so that late events can be counted.

Spark drops rows older than the watermark of the previous batch, and counts them after partial aggregation: its
``numRowsDroppedByWatermark`` does not count events. No Spark expression returns that watermark. So the driver writes
it to a file before a batch is planned, the process that plans the batch passes it to the tasks, and they add it to the
rows (:mod:`~logbus.pipeline.jobs.event_source`).
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from logbus.pipeline.errors import PipelineError
from logbus.pipeline.jobs.punctuation import PunctuationFile
from logbus.pipeline.lake.file_system import FileSystem

LATE_WATERMARK = "_late_watermark"
"""The column with the watermark."""


@frozen
class LateWatermark:
    """
    The file with the watermark of the next batch.

    :ivar path: a local file of the driver, where Spark plans batches.
    """

    path: Path

    @classmethod
    @contextmanager
    def made(cls) -> Iterator[LateWatermark]:
        """A temporary file for a run of a query."""
        with tempfile.TemporaryDirectory(prefix="logbus-") as directory:
            made = cls(Path(directory) / "watermark")
            made.set(0)
            yield made

    def set(self, ms: int) -> None:
        """Write the watermark for the next batch, in milliseconds since 1970."""
        draft = self.path.with_suffix(".draft")
        draft.write_text(str(ms))
        os.replace(draft, self.path)

    def punctuation(self, stream: str) -> PunctuationFile:
        """The file beside it for punctuations of a stream of the query."""
        return PunctuationFile(self.path.with_name(f"punctuation-{stream}"))

    def look(self, checkpoint: FileSystem) -> None:
        """
        Take the watermark from the last finished batch in the checkpoint, before a query starts.

        :raise PipelineError: the checkpoint is damaged.
        """
        done = [int(name) for name in checkpoint.names("commits") if name.isdigit()]
        self.set(watermark_of(checkpoint, max(done)) if done else 0)

    def after(self, checkpoint: FileSystem, batch: int) -> None:
        """
        Take the watermark from a batch whose outputs are written.

        :raise PipelineError: the checkpoint is damaged.
        """
        self.set(watermark_of(checkpoint, batch))


def watermark_of(checkpoint: FileSystem, batch: int) -> int:
    """
    The watermark of a batch in milliseconds, from Spark's ``OffsetSeqLog``; 0 if there was none.

    :raise PipelineError: the file does not have it.
    """
    try:
        return int(json.loads(checkpoint.read(f"offsets/{batch}").splitlines()[1])["batchWatermarkMs"])
    except (OSError, ValueError, KeyError, TypeError, IndexError) as e:
        raise PipelineError(f"{checkpoint.url}/offsets/{batch} does not say which watermark it has: {e!r}") from e
