# Types for the compiled form of log_validator.py.

cimport cython

from logbus.records.batch_validation cimport validate_produced


@cython.locals(size=Py_ssize_t, fields=tuple, base_timestamp="long long", max_timestamp="long long")
cpdef tuple validated_for_topic(data, config, long long now_ms, bint zstd_allowed, bint from_coordinator)
