"""
Proves a mirror complete: compares the records of topics with those of their copies.

Pure:

* ``record_digest``: a number that stands for a record
* ``window_totals``: WindowTotals, SideTotals: counts and sums of one side, by time
* ``differences``: Differences: which records of two sides differ
* ``compacted_side``: CompactedSide: the last record of each key
* ``audit_options``: AuditOptions: the options
* ``partition_report``: PartitionReport, WindowReport: the result

Shell:

* ``range_reader``: Side: reads a range of a partition
* ``mirror_positions``: the ends of the ranges that a mirror has copied
* ``partition_audit``: PartitionAudit: compares one partition with its copy
* ``compacted_audit``: the same for a compacted partition
* ``mirror_audit``: MirrorAudit: compares all topics of a flow

Offsets of the two sides differ, and so do their batches. So each side is read once, and of each partition and window of
time the number of its records is kept, the sum of their digests, and a sum in which their order counts, too. Only where
these differ, records are read again and compared one by one.
"""
