"""
The places that data files are written to directly: a local directory, or one of an object store or of HDFS, through
Arrow.

Options are named as the stores' own programs and delta-rs name them, and the environment variables are: those that are
not given come from the environment of the process that creates the store, and go to Spark's tasks from there. Without
keys a store looks for its usual credentials by itself, where the task runs: a profile, or the machine's role.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from attrs import field, frozen

from logbus.extras import install_hint
from logbus.pipeline.errors import LakeError, OptionError

S3_SCHEMES = ("s3", "s3a", "s3n")
GCS_SCHEMES = ("gs", "gcs")
AZURE_SCHEMES = ("abfs", "abfss")
HDFS_SCHEME = "hdfs"

S3_OPTIONS = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
)
GCS_OPTIONS = ("STORAGE_EMULATOR_HOST",)
AZURE_OPTIONS = (
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_ENDPOINT",
)

_OPTIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("", "file", HDFS_SCHEME), ()),
    **dict.fromkeys(S3_SCHEMES, S3_OPTIONS),
    **dict.fromkeys(GCS_SCHEMES, GCS_OPTIONS),
    **dict.fromkeys(AZURE_SCHEMES, AZURE_OPTIONS),
}
_EXAMPLES = (
    "/lake/views, hdfs://host:8020/views, s3://bucket/views, gs://bucket/views or "
    "abfss://container@account.dfs.core.windows.net/views"
)

_AZURE_HOSTS = (".dfs.core.windows.net", ".blob.core.windows.net")
"""What the URL of an account's container ends with; others are given by AZURE_STORAGE_ENDPOINT."""

GCS_SECONDS = 60
"""How long a request to Google's store is made again: Arrow's default is a quarter of an hour."""

REQUEST_ATTEMPTS = 10
"""How often a request to S3 is made that fails for a reason which may pass, with growing pauses."""


class Store(Protocol):
    """A directory on a file system of Arrow. It can be pickled; each process opens the file system by itself."""

    @property
    def url(self) -> str:
        """Of the directory, without a slash at its end."""

    def file_system(self) -> Any:
        """The ``pyarrow.fs.FileSystem``."""

    def root(self) -> str:
        """The directory's path on the file system."""

    def local_root(self) -> Path | None:
        """The directory, if it is on this machine's own file system."""


@frozen
class ArrowStore:
    """
    A directory at a URL or a local path.

    :param given: options, such as ``{"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"}``; others are the environment's.
    :raise LakeError: no store is known for the URL's scheme, or an account of Azure or a namenode is not known.
    :raise OptionError: an option is none of the store's, an endpoint is no URL, or HDFS needs a package.
    """

    _url: str
    _given: Mapping[str, str] = field(factory=dict, repr=False)
    _options: Mapping[str, str] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_options", store_options(self._url, self._given))
        scheme, _ = split_scheme(self._url)
        if scheme in AZURE_SCHEMES:
            _azure(self._url, self._options)
        if scheme == HDFS_SCHEME:
            _check_hdfs(self._url)

    @property
    def url(self) -> str:
        return self._url.rstrip("/")

    def root(self) -> str:
        """See :class:`Store`."""
        if (local := self.local_root()) is not None:
            return str(local)
        if split_scheme(self.url)[0] == HDFS_SCHEME:
            return f"/{_host_and_path(self.url)[1]}"
        bucket, slash, path = split_scheme(self.url)[1].lstrip("/").partition("/")
        return bucket.partition("@")[0] + slash + path

    def local_root(self) -> Path | None:
        """See :class:`Store`."""
        scheme, rest = split_scheme(self.url)
        return Path(os.path.abspath(f"/{rest.lstrip('/')}" if scheme else rest)) if scheme in ("", "file") else None

    def file_system(self) -> Any:
        """
        See :class:`Store`.

        :raise LakeError: the options do not fit the store.
        """
        import pyarrow as pa
        from pyarrow import fs

        scheme, _ = split_scheme(self.url)
        try:
            if scheme in S3_SCHEMES:
                return fs.S3FileSystem(**_s3(self._options, fs))
            if scheme in GCS_SCHEMES:
                return fs.GcsFileSystem(**_gcs(self._options))
            if scheme in AZURE_SCHEMES:
                return fs.AzureFileSystem(**_azure(self.url, self._options))
            if scheme == HDFS_SCHEME:
                return fs.PyFileSystem(fs.FSSpecHandler(_hdfs(self.url)))
        except (pa.ArrowException, OSError, ValueError) as e:
            raise LakeError(f"{self.url}: {e}") from e
        return fs.LocalFileSystem()


def split_scheme(url: str) -> tuple[str, str]:
    """
    The scheme of a URL, and the rest; of a path the scheme is "".

    As Hadoop's Path: a colon behind a slash is part of a name.
    """
    scheme, colon, rest = url.partition(":")
    return (scheme.lower(), rest) if colon and "/" not in scheme else ("", url)


def store_options(url: str, given: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """
    The options of a store: those that are given, and the environment's where there is none.

    :raise LakeError: no store is known for the URL's scheme.
    :raise OptionError: an option is none of the store's.
    """
    scheme, _ = split_scheme(url)
    names = _OPTIONS.get(scheme)
    if names is None:
        raise LakeError(f"{url}: data files cannot be written to {scheme}: directly; a table can be at {_EXAMPLES}")
    for name in given:
        if name not in names:
            takes = ", ".join(names) or "none"
            raise OptionError(f"{url}: {name} is no option of {scheme or 'a local directory'}; it takes {takes}")
    return {name: value for name in names if (value := given.get(name, environ.get(name, "")))}


def _s3(options: Mapping[str, str], fs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=REQUEST_ATTEMPTS)}
    if endpoint := options.get("AWS_ENDPOINT_URL_S3") or options.get("AWS_ENDPOINT_URL"):
        scheme, _, host = endpoint.rpartition("://")
        found |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"}
    if "AWS_ACCESS_KEY_ID" in options:
        found |= {"access_key": options["AWS_ACCESS_KEY_ID"], "secret_key": options.get("AWS_SECRET_ACCESS_KEY", "")}
        if "AWS_SESSION_TOKEN" in options:
            found["session_token"] = options["AWS_SESSION_TOKEN"]
    if region := options.get("AWS_REGION") or options.get("AWS_DEFAULT_REGION"):
        found["region"] = region
    elif endpoint:
        found["region"] = "us-east-1"  # Else Arrow asks Amazon for the bucket's.
    return found


def _gcs(options: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"retry_time_limit": timedelta(seconds=GCS_SECONDS)}
    if endpoint := options.get("STORAGE_EMULATOR_HOST"):
        scheme, _, host = endpoint.rpartition("://")
        found |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "http", "anonymous": True}
    return found


def _host_and_path(url: str) -> tuple[str, str]:
    rest = split_scheme(url)[1]
    host, _, path = rest.removeprefix("//").partition("/") if rest.startswith("//") else ("", "", rest.lstrip("/"))
    return host, path


def _check_hdfs(url: str) -> None:
    if not _host_and_path(url)[0]:
        raise LakeError(
            f"{url}: the namenode is not known; give hdfs://HOST:PORT/PATH, or hdfs://NAMESERVICE/PATH with "
            "hdfs-site.xml in HADOOP_CONF_DIR"
        )
    if find_spec("hdfs_native") is None:
        raise OptionError(
            f"{url}: a table of this format on HDFS needs the package hdfs-native: {install_hint('hdfs')}"
        )


def _hdfs(url: str) -> Any:
    from hdfs_native.fsspec import HdfsFileSystem

    host, _, port = _host_and_path(url)[0].partition(":")
    return HdfsFileSystem(host, int(port) if port else None)


def _azure(url: str, options: Mapping[str, str]) -> dict[str, Any]:
    host = split_scheme(url)[1].lstrip("/").partition("/")[0].partition("@")[2]
    if host and not host.endswith(_AZURE_HOSTS):
        raise LakeError(
            f"{url}: {host} is not ACCOUNT{_AZURE_HOSTS[0]}; of another cloud or an emulator give "
            "abfss://CONTAINER/PATH with AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ENDPOINT"
        )
    account = host.partition(".")[0] or options.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    if not account:
        raise LakeError(
            f"{url}: the account is not known; give abfss://CONTAINER@ACCOUNT{_AZURE_HOSTS[0]}/PATH, or "
            "AZURE_STORAGE_ACCOUNT_NAME"
        )
    found = {"account_name": account}
    for name, option in (("account_key", "AZURE_STORAGE_ACCOUNT_KEY"), ("sas_token", "AZURE_STORAGE_SAS_TOKEN")):
        if option in options:
            found[name] = options[option]
    if endpoint := options.get("AZURE_STORAGE_ENDPOINT"):
        found |= _azure_authorities(account, endpoint)
    return found


def _azure_authorities(account: str, endpoint: str) -> dict[str, str]:
    """
    An endpoint as Arrow takes it: a host behind the account's name, or one where the account is the path, as Azurite's.

    :raise OptionError: it is neither.
    """
    scheme, _, rest = endpoint.rstrip("/").partition("://")
    host, _, path = rest.partition("/")
    if scheme in ("http", "https") and path == account:
        blob = dfs = host
    elif scheme in ("http", "https") and not path and host.startswith(f"{account}.blob."):
        blob = host.removeprefix(account)
        dfs = blob.replace(".blob.", ".dfs.", 1)
    else:
        raise OptionError(
            f"AZURE_STORAGE_ENDPOINT is {endpoint!r}; it takes https://{account}.blob.SUFFIX, or "
            f"http://HOST:PORT/{account} of an emulator"
        )
    return {
        "blob_storage_authority": blob,
        "blob_storage_scheme": scheme,
        "dfs_storage_authority": dfs,
        "dfs_storage_scheme": scheme,
    }
