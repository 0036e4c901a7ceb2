# Types for the compiled form of append_many.py.

cimport cython

from logbus.storage.appends.log_validator cimport validated_for_topic


@cython.locals(
    offsets=list, appended=list, of_producers=list, parts=list, size="long long", latest="long long",
    offset="long long", base_offset="long long", last_producer="long long", last_epoch="long long",
    next_sequence="long long", fields=tuple, length="long long", attributes="long long", delta="long long",
    timestamp="long long", producer_id="long long", epoch="long long", sequence="long long", are_consecutive=bint,
)
cpdef append_many(
    log, batches, long long leader_epoch, long long now_ms, bint zstd_allowed, bint in_transaction=*
)
