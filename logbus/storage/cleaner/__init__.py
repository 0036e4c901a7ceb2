"""
Log compaction.

* ``log_cleaner``: LogCleaner: chooses the next log, and handles failures
* ``log_to_clean``: the section of a log to clean, and the segments to merge (pure)
* ``cleaner_task``: one cleaning of one log
* ``chunks``: reads and processes a part of a segment, in a thread
* ``offset_map``: maps keys to the offsets of their last records
* ``record_filter``: puts keys into an offset map, and keeps or drops records (pure)
* ``compaction``: the records and batches that stay (pure)
* ``implementations``: chooses between the compiled offset map and that in Python

``LogCleaner`` picks a ``LogToClean``; a ``CleanerTask`` fills the ``OffsetMap``, writes the batches that ``Compaction``
keeps to a new segment, and replaces the old ones (:mod:`logbus.storage.segment_replacement`).
"""
