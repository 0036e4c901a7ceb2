"""
The ways to append to a log.

* ``log_validator``: checks a produced batch against its topic's settings
* ``recompression``: recompresses batches for topics with a codec of their own
* ``append_many``: several batches of producers by one write
* ``append_as_follower``: batches from the leader
* ``append_marker``: transaction markers

``Log.append_as_leader`` is in :mod:`logbus.storage.log`.
"""
