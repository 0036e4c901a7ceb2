"""
A streams group (KIP-1071): the members of a Kafka Streams application, to which the coordinator assigns tasks. Pure.

The members bring a topology: subtopologies with their source topics, repartition topics and changelog topics. Each
subtopology is as many tasks as its source topics have partitions.

* ``topology``: what the application reads and writes
* ``tasks``: immutable sets of tasks
* ``configured_topology``: numbers of partitions and tasks for it, and which topics are missing
* ``sticky_assignor``: the assignor ``sticky``
* ``status``: what responses say of the group's state
"""
