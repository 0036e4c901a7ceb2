"""
One broker's logs on disk.

::

    manager.py      LogManager: all logs, in all log directories; what waits is a Deferred
    directory.py    one log directory: lock, marker of a clean stop, checkpoints
    log.py          Log: append and read, by plain calls into the page cache
    segment.py      one file of batches with its indexes      index.py  offset and time index
    flush.py        group commit and write-back               recovery.py  after a stop that was not clean
    shortening.py   deletion at the front, truncation at the end; owner.py  who is told of files that may go
    validation.py   what a topic demands of a batch           lookup.py  offsets by time
    producers.py    sequences of idempotent producers         snapshots.py  the same on disk
    marking.py      transaction markers                       stability.py  what holds readers of committed records back
    aborted.py      index of aborted transactions             transactions.py  the same of a whole log, and made anew
    epochs.py       leader epochs                             restore.py  producers and epochs, read back
    retention.py    what may be deleted                       housekeeping.py  all that is done from time to time
    checkpoints.py  the small files                           names.py  what files are called
    istorage.py     IDisk, IFile, IDeletePolicy               disk.py, lanes.py, files.py  the real disk

A produced batch goes ``Log.append_as_leader`` → ``validation`` → ``producers`` → ``Segment`` → one ``pwritev``. Who
wants it on stable storage waits for ``Log.flush``, which shares an fdatasync in the directory's sync lane. A read gives
a ``FileSlice``. Files are Kafka's, byte for byte.
"""
