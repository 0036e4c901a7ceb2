"""
Checks of what clients saw and brokers hold.

* ``history``: sends and polls, and their anomalies. Pure.
* ``transaction_history``: transactions and committed reads, and their anomalies. Pure.
* ``share_history``: what members of a share group were given, and its anomalies. Pure.
* ``read_committed``: drops aborted records, as a consumer does. Pure.
* ``durability_oracle``: which records may be lost after power cuts.
* ``error_log``: errors in the log that no fault explains.
* ``remote_inspector``: compares remote segments with the objects of the store.
* ``replica_inspector``: compares brokers' logs and leaderships.
"""
