"""
Chooses between compiled and Python implementations of encoding and decoding records and columns.

The environment variable ``LOGBUS_PURE`` disables the compiled ones.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from logbus.extension_modules import extension_module
from logbus.records import columnar, gathering, kernel, murmur, packing


def _chosen(pure: ModuleType, name: str) -> ModuleType:
    return extension_module(name, pure.REVISION) or pure


_kernel = _chosen(kernel, "logbus.records._kernel")
_columnar = _chosen(columnar, "logbus.records._columnar")
_gathering = _chosen(gathering, "logbus.records._gathering")
_packing = _chosen(packing, "logbus.records._packing")

IS_COMPILED = _kernel is not kernel
COLUMNS_ARE_COMPILED = _columnar is not columnar
GATHERING_IS_COMPILED = _gathering is not gathering
PACKING_IS_COMPILED = _packing is not packing

encode_record = kernel.encode_record
decode_records = kernel.decode_records
if IS_COMPILED:
    encode_record = _kernel.encode_record
    decode_records = _kernel.decode_records

partition_for_key = murmur.partition_for_key
encode_columns = packing.encode_columns
partitions_of_keys = packing.partitions_of_keys
if PACKING_IS_COMPILED:
    partition_for_key = _packing.partition_for_key
    encode_columns = _packing.encode_columns
    partitions_of_keys = _packing.partitions_of_keys

if TYPE_CHECKING:
    from logbus.records.columnar import Columns as Columns
    from logbus.records.gathering import RecordBuffer as RecordBuffer
else:
    Columns = _columnar.Columns
    RecordBuffer = _gathering.RecordBuffer
