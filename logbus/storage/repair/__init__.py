"""
Detection and repair of damaged segments.

* ``damage``: checks of batches, and the list of known damage
* ``log_scrubber``: reads closed segments periodically, to find damage
* ``log_repairer``: repairs one segment at a time, with the cleaner paused
* ``segment_refetch``: replaces segments by batches of another replica

``LogScrubber`` → ``DamageReports`` → :mod:`logbus.cluster` chooses a replica → ``LogRepairer`` → ``SegmentRefetch``.
"""
