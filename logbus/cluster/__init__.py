"""
The cooperation of brokers: membership, metadata, the controller, and replication.

Packages:

* ``controller``: the elected controller: leader elections, reassignments, topics, and metadata updates to brokers.
* ``replication``: this broker's replicas: roles, high watermarks, in-sync replicas, and reads.
* ``follower``: fetching from leaders, and truncation where the logs differ.
* ``remote_log``: tiered storage: copies segments to an object store, and deletes them there.

What a broker knows of the cluster:

* ``membership``: registers this broker in the metadata store; creates the cluster's id.
* ``cluster_metadata``: the copy of brokers, topics and the controller that requests read (Kafka: MetadataCache).
* ``images``: its values: brokers, partitions, topics.
* ``metadata_changes``: the changes of it, of which subscribers are told. Pure.
* ``metadata_update``: the update that the controller sends to brokers.
* ``metadata_update_codec``: encodes and decodes it.
* ``metadata_update_receiver``: applies it to this broker.
* ``acl_subscriber``: keeps an authorizer's ACLs as the security nodes have them
* ``quota_subscriber``: keeps the quotas of users and client ids as the security nodes have them
* ``ip_quota_subscriber``: keeps the rates of new connections of addresses as the security nodes have them
* ``delegation_tokens``: the delegation tokens among the security nodes
* ``security_nodes``: users, quotas, ACLs and delegation tokens, as bytes by path. Pure.
* ``security_node_loader``: loads them from the metadata store.
* ``replication_metrics``: metrics of the partitions that this broker leads, and of all if it is the controller.
* ``broker_snapshots``: snapshots of this broker's logs and the cluster's metadata, for backups.
* ``controller_epoch_store``: the highest controller epoch seen, on disk.

Requests between brokers:

* ``icluster``: the interfaces between the controller, brokers and replicas.
* ``peers``: connections to the other brokers, one for each purpose.
* ``broker_secret``: the secret by which brokers prove to each other that they are brokers.
* ``controller_channel``: calls of this broker to the controller.
* ``forwarding_manager``: forwards clients' requests to the controller (KIP-590).
* ``topic_admin_forwarder``: topic administration on any broker.
* ``controlled_shutdown``: moves leaderships away before a broker stops (KIP-143).
* ``plugin_calls``: requests of a plugin to the same plugin on another broker.
* ``producer_id_manager``: allocates producer ids, from blocks in the metadata store.

A decision of the controller goes metadata store → ``controller.broker_channels`` → ``peers`` →
``metadata_update_receiver`` → ``replication.replica_manager`` (roles) and ``cluster_metadata`` (answers to clients). A
change of an ISR goes the other way: ``replication.isr_manager`` → ``controller_channel`` → ``controller``.
"""
