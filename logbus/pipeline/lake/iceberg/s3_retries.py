"""Has PyIceberg repeat requests to S3 as often as data files are written; by default it gives up after three."""

from __future__ import annotations

from pyarrow.fs import AwsStandardS3RetryStrategy

from logbus.pipeline.lake.object_store import REQUEST_ATTEMPTS


class RetryStrategy(AwsStandardS3RetryStrategy):  # type: ignore[misc]
    """Named by a catalog's property, and made without arguments."""

    def __init__(self) -> None:
        super().__init__(max_attempts=REQUEST_ATTEMPTS)
