"""
The clients of a simulation.

* ``records_workload``: producers and consumers of plain records.
* ``transactions_workload``: transactional producers, copying stages, and readers of committed records.
* ``shares_workload``: producers, and members of a share group.
* ``tiered_workload``: topics with remote storage, and what is to be in its store.
* ``producer``: writes integers to a partition, idempotent or not.
* ``consumer``: reads a partition from the beginning; the context that clients share.
* ``committed_consumer``: the same with ``read_committed``, and a group's stable offset.
* ``transactional_producer``: a producer with a transactional id, by both protocol versions.
* ``transaction_writer``: runs transactions of such a producer.
* ``copy_stage``: copies a topic in transactions.
* ``share_member``: a member of a share group, with its sessions.
* ``cluster_client``: a client's metadata and connections.
* ``client_router``: sends requests to leaders and coordinators.
* ``cluster_operator``: administrative requests: elections, reassignments, configs, topics.
"""
