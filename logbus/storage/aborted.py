"""
The index of aborted transactions: ``<base offset>.txnindex``, one per segment, in Kafka's own format.

Readers of committed records are told with each answer which producers' batches they must pass over, and from where on.
An entry lies beside the segment that has the marker; the transaction may have begun in an earlier one. There is no file
where nothing was aborted.

::

    entry: version int16 | producer_id int64 | first_offset int64 | last_offset int64 | last_stable_offset int64

``last_offset`` is the marker's. Below ``last_stable_offset`` all transactions had ended when the marker was written:
who looks for those that began before some offset need not look behind an entry that says so of it. Both increase.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

VERSION = 0

ENTRY = Struct(">hqqqq")
ENTRY_SIZE = ENTRY.size


class AbortedTransaction(NamedTuple):
    """
    A transaction that was aborted.

    :ivar first_offset: of its first record.
    :ivar last_offset: of its marker.
    :ivar last_stable_offset: all transactions that began below it had ended by then.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
