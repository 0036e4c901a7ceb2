"""
The controller: every broker runs one, and the elected one decides over leaders, ISRs and topics.

The events and the decisions:

* ``controller``: the queue of events, and this broker's part in the election (Kafka: KafkaController).
* ``controller_election``: elects the controller, by an ephemeral node and an epoch.
* ``active_controller``: the work of the elected controller.
* ``controller_context``: its state: brokers, topics, partitions.
* ``broker_incarnations``: the registrations of brokers that were noted.
* ``security_node_table``: the nodes of users, quotas, ACLs and delegation tokens.
* ``broker_reports``: the reports of brokers since they registered.
* ``state_loader``: loads that from the metadata store.
* ``fence``: writes that fail once another controller was elected.
* ``controller_metrics``: counts of its work.

Pure rules:

* ``leader_election``: the leader and the ISR of a partition after a change of brokers.
* ``topic_rules``: the topic settings that elections depend on.
* ``alter_partition``: leaders' requests to change an ISR (KIP-497).
* ``reassignment``: moves of partitions to other replicas (KIP-455).
* ``preferred_leaders``: partitions that their preferred leader does not lead.
* ``replica_assignment``: the brokers of new partitions.
* ``feature_level``: the level that all brokers support.
* ``topic_plan``: checks of requests to create or change topics.

Changes on request:

* ``topic_admin``: creates and deletes topics, and adds partitions, for request handlers.
* ``config_admin``: configures topics, brokers and groups, for request handlers.
* ``topic_changes``: both, as steps of the active controller.
* ``change_timeout``: limits how long these requests wait.
* ``partition_admin``: elections and reassignments, for request handlers.
* ``partition_changes``: the same, as steps of the active controller.
* ``broker_changes``: requests and reports of brokers, as steps of the active controller.
* ``security_admin``: changes users, quotas, ACLs and delegation tokens, for request handlers.
* ``token_expiration``: removes delegation tokens that have ended.
* ``security_changes``: the same, as steps of the active controller.
* ``leader_rebalancer``: hands leadership back to preferred leaders now and then.

Metadata updates to brokers:

* ``update_batch``: builds the updates from a batch of changes.
* ``broker_channels``: sends them to all brokers (Kafka: ControllerChannelManager).
* ``metadata_update_sender``: sends them to one broker, in order.

A watch or a request puts an event on the queue of ``controller``; ``active_controller`` decides by the pure rules,
writes under the ``fence``, changes the ``controller_context``, and hands a batch to ``broker_channels``.
"""
