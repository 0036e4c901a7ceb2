"""
Tiered storage (KIP-405): closed segments of a topic go to an object store, and are read back from there.

* ``remote_log_manager``: RemoteLogManager: the work on all partitions, again and again (Kafka: RemoteLogManager)
* ``remote_log_task``: the work on one partition: copies, deletes, and moves the log start offset (Kafka: RLMTask)
* ``metadata_topic``: the internal topic ``__remote_log_metadata``: appends to it, and reads it (Kafka:
  TopicBasedRemoteLogMetadataManager)
* ``metadata_consumer``: reads one partition of it, from a local replica or from its leader
* ``metadata_requests``: requests between brokers about it (pure)
* ``remote_state``: with which state a follower begins behind a remote segment
* ``deleted_topics``: deletes the remote segments of topics that are gone
* ``store_trouble``: reports once that the store is away, and once that it is back
* ``copy_throttle``: limits the bytes a second that are copied

A leader writes to the topic that a copy begins, copies the segment, and writes that it is complete; deletions likewise.
The leader of the topic's partition refuses a state that cannot follow the segment's present one, so that of two leaders
that act on a segment one is refused. All brokers with replicas of a partition read its states, so that any of them can
take over, and each deletes local segments only when they are known to be in the store.
"""
