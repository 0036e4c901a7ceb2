"""
The limits of a stream's batches (``pyspark.sql.streaming.datasource``, since Spark 4.2), and stand-ins before that.

Spark 4.1 asks a Python data source for the end of a batch without saying where the last one ended, so batches
cannot be limited there.
"""

from __future__ import annotations

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
except ImportError:
    from attrs import frozen

    HAS_LIMITS = False

    class ReadLimit:  # type: ignore[no-redef]
        """See Spark's."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """See Spark's."""

    @frozen
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """See Spark's."""

        max_rows: int

    @frozen
    class ReadMinRows(ReadLimit):  # type: ignore[no-redef]
        """See Spark's."""

        min_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Spark fixes the end of such a query by itself."""


__all__ = [
    "HAS_LIMITS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]
