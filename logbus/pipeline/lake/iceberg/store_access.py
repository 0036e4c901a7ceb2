"""Explains why a table of Iceberg in S3 cannot be reached: before Spark starts, and in errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from logbus.pipeline.blocking.patience import PATIENCE, telling, warn
from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.object_store import S3_SCHEMES, split_scheme
from logbus.pipeline.lake.reachability import check_address, has_proxy
from logbus.pipeline.lake.store_refusal import is_refusal

ENDPOINT = "s3.endpoint"
_PROXY = "s3.proxy-uri"
_KEYS = ("s3.access-key-id", "client.access-key-id")


def check_warehouse(
    table: str,
    properties: Mapping[str, str],
    file_system: Callable[[], object],
    tell: Callable[[str], None] = warn,
) -> None:
    """
    Check that a catalog's endpoint of S3 takes connections, and that its warehouse's bucket is there.

    That the bucket may not be looked at is no error: a key may be for a part of it.

    :param table: for messages.
    :param properties: of the catalog.
    :param file_system: opens the warehouse's ``pyarrow.fs.FileSystem``.
    :param tell: is told that the store is silent.
    :raise LakeError: it does not, or there is none.
    """
    warehouse = properties.get("warehouse", "")
    scheme, rest = split_scheme(warehouse)
    endpoint = properties.get(ENDPOINT)
    is_direct = not (properties.get(_PROXY) or has_proxy())
    if endpoint and is_direct and (scheme in S3_SCHEMES or ":" not in warehouse):
        check_address(table, ENDPOINT, endpoint, tell)
    if scheme not in S3_SCHEMES:
        return
    import pyarrow as pa
    from pyarrow import fs

    bucket = rest.lstrip("/").partition("/")[0]
    try:
        with telling(f"{table}: the store of {warehouse} has not answered for {PATIENCE:g} s; still trying", tell):
            files = file_system()
            assert isinstance(files, fs.FileSystem)
            there = files.get_file_info(bucket).type is not fs.FileType.NotFound
    except (pa.ArrowException, OSError) as e:
        if "NETWORK_CONNECTION" in str(e):
            raise LakeError(f"{table}: the store of {warehouse} cannot be reached: {' '.join(str(e).split())}") from e
        return
    if not there:
        raise LakeError(f"{table}: there is no bucket {bucket!r}, in which the catalog's warehouse is: {warehouse}")


def with_advice(said: str, properties: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> str:
    """
    What an error of S3 says, and if it is a refusal, which key was used, and what to set.

    :param properties: of the catalog, or the table.
    """
    if "AWS Error" not in said or not is_refusal(said):
        return said
    name = next((each for each in _KEYS if properties.get(each)), "")
    if name:
        used = f"{name}={properties[name]}"
    elif key := environ.get("AWS_ACCESS_KEY_ID"):
        used = f"AWS_ACCESS_KEY_ID={key}"
    else:
        used = f"a profile's or this machine's credentials, or none, since {_KEYS[0]} is not set"
    return (
        f"the store refuses access with {used}; set {_KEYS[0]} and s3.secret-access-key of the catalog to a key that "
        f"may read and write there, and see that this machine's clock is right: {said}"
    )
