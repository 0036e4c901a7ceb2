"""
Mirrors: copy topics of one cluster to another, with their settings and the offsets of their groups.

Pure:

* ``replication_policy``: ReplicationPolicy: names of topics at the target; loops
* ``name_filter``: NameFilter: which topics and groups are meant
* ``mirror_records``: OffsetSync, Checkpoint, Heartbeat: the records of MirrorMaker 2's topics
* ``copied_range``: CopiedRange: the offsets of copied records on both sides, and their header in an offset sync
* ``offset_map``: OffsetMap: translates offsets of a partition
* ``batch_copy``: BatchCopy: makes the target's batches of the source's
* ``topic_settings``: the settings that are copied, and their differences
* ``acl_rules``: which rights on topics are given on their copies
* ``offset_table``: OffsetTable: values for some offsets of a partition
* ``skipped_records``: SkippedRecord, Sieve: records that are too large for the target, and left out
* ``copy_rates``: CopyRates: records and bytes per second
* ``missing_rights``: says which right is missing, or that there are no transactions

Shell:

* ``mirror_options``: MirrorOptions: the options of a mirror
* ``mirror_keys``: these options by the keys that brokers and the command have
* ``mirror``: Mirror: one flow from a source to a target
* ``copy_session``: CopySession: copies in transactions, until one of them is not certain
* ``sent_batches``: SentBatches: the target's answers about the batches of a transaction
* ``session_start``: marks the end of what mirrors before a session have written
* ``source_reader``: SourceReader: the partitions that are read, where, and what is in the way
* ``start_positions``: StartPositions: the start positions in partitions
* ``target_state``: whether the target knows less than it did
* ``topic_sync``: TopicSync: finds topics, creates and adapts their copies
* ``refused_settings``: copies settings without those that the target does not take
* ``position_store``: reads where a mirror left off, and what it has left out
* ``origins``: Origins: the clusters that a source's topics come from, if their names do not say it
* ``checkpoints``: Checkpoints: publishes the translated offsets of groups
* ``mirror_status``: MirrorStatus: counts, lag and problems, for progress lines, metrics and the HTTP API
* ``running_mirror``: RunningMirror: a mirror that a broker runs, for those who show it
* ``audit``: proves a mirror complete

The state of a mirror is at its target only: each transaction has the copied records and, in the topic
``mm2-offset-syncs.SOURCE.internal``, where they lie on both sides. So a mirror that is killed goes on exactly where its
last transaction ended, and one that is started twice fences its predecessor (KIP-98).
"""
