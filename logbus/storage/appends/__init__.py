"""
The ways to append to a log.

* ``append_as_leader``: a batch of a producer
* ``append_many``: several batches of producers by one write
* ``large_appends``: LargeAppends: large batches are written by threads first
* ``append_as_follower``: batches from the leader
* ``append_marker``: transaction markers
* ``log_append_info``: the result of an append (pure)
* ``log_validator``: checks a produced batch against its topic's settings
* ``recompression``: recompresses batches for topics with a codec of their own
"""
