"""
The logs of one broker on disk, in Kafka's formats (Kafka: storage).

* ``log_manager``: LogManager: opens, creates, deletes and closes all logs, in all log directories
* ``log_creator``: LogCreator: creates logs, each in the directory that is meant for it
* ``log_user``: the interface to the user of the logs, such as replicas
* ``directory_opening``: opens all log directories, and their logs
* ``directory_claims``: checks that the log directories are this broker's, and all of them
* ``log_directory``: LogDirectory: lock and checkpoints of one directory, whose logs it opens and closes
* ``clean_shutdown``: the marker by which the next start opens logs without reading them
* ``log``: Log: writes and reads, by plain calls into the page cache (Kafka: UnifiedLog)
* ``log_state``: LogState: a log's segments and offsets, its epochs, producers and transactions
* ``log_owner``: the calls that a log makes to its owner
* ``log_flusher``: syncs a log, for waiting callers and by write-back
* ``group_commit``: GroupCommit: one commit for all callers that wait for it
* ``log_recovery``: recovers a log after an unclean shutdown
* ``truncation``: retention at the front of a log, truncation at its end
* ``auxiliary_state``: the state of a log about records that only remote storage has (KIP-405)
* ``segment_replacement``: replaces segments by another, atomically across crashes
* ``retention``: selects the segments that retention deletes
* ``delete_policy``: finds the policy of deletion by name
* ``offset_lookup``: offsets by timestamp
* ``leader_epoch_cache``: leader epochs and their start offsets
* ``leader_epoch_loader``: loads them, or rebuilds them from batch headers
* ``log_truncator``: LogTruncator: truncates logs so that no crash undoes it
* ``stray_logs``: StrayLogs: logs that the cluster does not know, kept for a while
* ``log_worker``: background work on one log at a time, paused where logs are about to change
* ``log_mover``: moves logs between log directories (KIP-113)
* ``future_log``: the copy that a move fills
* ``move_recovery``: completes or undoes moves that a crash interrupted
* ``log_linker``: LogLinker: hands logs to other workers of the machine by hard links
* ``log_snapshots``: LogSnapshots: the files of all logs at one moment, for backups
* ``housekeeping``: periodic work on all logs, on one timer
* ``space_monitor``: watches the free space of all log directories
* ``disk_space``: levels of free space (pure)
* ``flush_times``: FlushTimes: how long syncs of a log directory take
* ``throttler``: limits background work by time and by bytes
* ``checkpoints``: formats of the small files
* ``file_names``: names of files and directories
* ``settings``: settings of storage, cleaner and scrubber
* ``istorage``: the interfaces IDisk, IFile, IDeletePolicy

* :mod:`~logbus.storage.appends`: the ways to append to a log
* :mod:`~logbus.storage.segments`: segments and their indexes
* :mod:`~logbus.storage.producers`: producer state and transactions
* :mod:`~logbus.storage.cleaner`: log compaction
* :mod:`~logbus.storage.remote`: the parts of logs that are in an object store
* :mod:`~logbus.storage.repair`: detection and repair of damage
* :mod:`~logbus.storage.filesystem`: disks, files, I/O threads, the page cache

A produced batch goes ``appends.append_as_leader`` → ``appends.log_validator`` → ``producers.producer_state_manager`` →
``segments.segment`` → one ``pwritev``. Durability comes from ``Log.flush``, which shares an fdatasync in an I/O thread.
A read returns a ``FileSlice``.
"""
