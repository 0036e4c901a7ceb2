"""
The state of a log's idempotent and transactional producers.

* ``producer_state_manager``: checks sequence numbers and epochs of batches and markers
* ``producer_snapshot``: the format of producer snapshots
* ``snapshot_encoder``: encodes the producers of one moment in slices, while the log is in use
* ``producer_state_loader``: loads the state from a snapshot and the batches after it
* ``producer_replay``: the same in slices, while the log is in use
* ``last_stable_offset``: open transactions, and where read_committed consumers stop
* ``aborted_transactions``: finds a log's aborted transactions, rebuilding damaged indexes
"""
