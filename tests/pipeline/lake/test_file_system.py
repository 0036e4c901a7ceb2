"""Tests which stores a table can be on, without Spark."""

from __future__ import annotations

from unittest import TestCase

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.file_system import check_store


class CheckStoreTests(TestCase):
    """Schemes of URLs."""

    def test_allowed(self) -> None:
        """Paths, whatever their names, and the two schemes."""
        for url in (
            "lake/views",
            "/lake/a:b",
            "./s3a:x",
            "file:///lake",
            "file:/lake",
            "hdfs:///lake",
            "hdfs://host:1/l",
        ):
            check_store(url)

    def test_refused(self) -> None:
        """Whatever is not known to be right, with what would be."""
        for scheme in (
            "s3",
            "s3a",
            "gs",
            "abfs",
            "abfss",
            "wasb",
            "wasbs",
            "oss",
            "obs",
            "cosn",
            "viewfs",
            "nonsense",
            "S3A",
        ):
            url = f"{scheme}://bucket/t"
            with self.assertRaisesRegex(LakeError, f"^{url}: {scheme}: is not known .* /lake/views or .* hdfs://"):
                check_store(url)
