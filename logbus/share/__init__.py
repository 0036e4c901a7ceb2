"""
The partitions of share groups on their leaders (KIP-932; Kafka: kafka.server.share).

A member fetches with a session from the leaders of its partitions. There the next records are read, and acquired for
it; it acknowledges them, or its time is over. What has become of records is kept by the share coordinator.

* ``in_flight_records``: the records between start offset and end offset, as runs (pure)
* ``share_partition``: a partition of a group: who has which records, and until when (pure)
* ``share_sessions``: the sessions of members, with their partitions (pure)
* ``ended_sessions``: has members leave the partitions of sessions that have ended, and others
* ``led_share_partition``: a share partition on its leader: kept by its coordinator, with a timer
* ``share_partition_manager``: the share partitions that this broker leads
* ``delayed_share_fetch``: a fetch among those that wait for the same records
* ``initial_offset``: where a group begins
* ``share_fetches``: reads and acquires records for members, and waits for them
"""
