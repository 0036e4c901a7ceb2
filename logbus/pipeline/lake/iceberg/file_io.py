"""
PyIceberg's way to files by Arrow, which of Azure's stores understands the URLs that other engines write, too:
``abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.io import ADLS_ACCOUNT_NAME
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT

from logbus.pipeline.lake.object_store import AZURE_SCHEMES


class LakeFileIO(PyArrowFileIO):
    """Named by a catalog's property ``py-io-impl``, and made with its properties."""

    @staticmethod
    def parse_location(location: str, properties: Mapping[str, str] = EMPTY_DICT) -> tuple[str, str, str]:
        """
        The scheme of a URL, its host, and the path on the file system.

        :param properties: of the catalog.
        """
        scheme, host, path = PyArrowFileIO.parse_location(location, dict(properties))
        if scheme in AZURE_SCHEMES and "@" in host:
            path = host.partition("@")[0] + path.removeprefix(host)
        return scheme, host, path

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> Any:
        account = (netloc or "").partition("@")[2].partition(".")[0]
        if scheme in AZURE_SCHEMES and account:
            return PyArrowFileIO({**self.properties, ADLS_ACCOUNT_NAME: account})._initialize_azure_fs()
        return super()._initialize_fs(scheme, netloc)
