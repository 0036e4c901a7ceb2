"""
The handlers of the APIs: each takes a decoded request, and returns a response message (Kafka: KafkaApis).

A request comes from :mod:`logbus.net` to ``request_router``, which calls the method that declares the API's key. The
method checks the request, calls a part of the broker, and converts the outcome to a response of the request's version.
A new API is a new module here (``docs/howto/add-an-api.rst``): ``discovery`` finds its class by the declaration. Most
modules are imported with the first request of one of their APIs.

Routing:

* ``request_router``: the table of handlers by API key
* ``discovery``: finds the classes of handlers in this package, and builds them, most when they are first needed
* ``broker_parts``: the parts of a broker that they are built from
* ``named_partitions``: the partitions that a request names
* ``authorization``: the rights that each API needs: guards before the handlers (a package)
* ``startup_gate``: delays requests about the metadata until a starting broker has it
* ``forward_to_controller``: forwards requests to the controller
* ``broker_loggers``: levels of this process's loggers, which DescribeConfigs and IncrementalAlterConfigs have
* ``request_log``: logs requests, or slow ones
* ``forward``: serves forwarded requests (Forward)

Records:

* ``produce``: Produce
* ``coalesced_produce``: Produce requests that differ only in their batches, of one connection or several
* ``large_produce``: decides whether large Produce requests wait before they are served
* ``produce_appender``: appends the batches of both, and counts them
* ``delayed_produce``: waits until batches are durable on all in-sync replicas
* ``produce_errors``: error responses of Produce
* ``transaction_verification``: lets transactional batches wait for verification (KIP-890)
* ``fetch``: Fetch
* ``repeated_fetch``: Fetch requests that repeat an earlier one
* ``fetch_contexts``: the partitions that a fetch reads: those of its request, or of its session
* ``fetch_response``: builds its response
* ``fetch_sessions``: incremental fetch sessions
* ``current_leaders``: the current leader in responses (KIP-951)
* ``log_offsets``: ListOffsets, OffsetForLeaderEpoch, DeleteRecords

Cluster and topics:

* ``api_versions``: ApiVersions, UpdateFeatures
* ``metadata``: Metadata, DescribeCluster
* ``describe_topic_partitions``: DescribeTopicPartitions
* ``topics``: CreateTopics, DeleteTopics, CreatePartitions
* ``configs``: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs
* ``config_resources``: ListConfigResources
* ``acls``: DescribeAcls, CreateAcls, DeleteAcls
* ``user_scram_credentials``: DescribeUserScramCredentials, AlterUserScramCredentials
* ``delegation_tokens``: CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken
* ``client_quotas``: DescribeClientQuotas, AlterClientQuotas
* ``elections``: ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments
* ``log_dirs``: DescribeLogDirs, AlterReplicaLogDirs
* ``sasl``: SaslHandshake, SaslAuthenticate, where there is nothing to log in for

Groups:

* ``find_coordinator``: FindCoordinator, also of transactions
* ``classic_groups``: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
* ``modern_groups``: what requests about consumer, share and streams groups have in common
* ``consumer_groups``: ConsumerGroupHeartbeat, ConsumerGroupDescribe
* ``share_groups``: ShareGroupHeartbeat, ShareGroupDescribe
* ``share_fetches``: ShareFetch, ShareAcknowledge
* ``share_acknowledgements``: what these say of records
* ``share_responses``: the responses to these
* ``share_group_offsets``: DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets
* ``streams_groups``: StreamsGroupHeartbeat, StreamsGroupDescribe
* ``group_admin``: DescribeGroups, ListGroups, DeleteGroups
* ``group_offsets``: OffsetCommit, OffsetFetch, OffsetDelete
* ``offset_commit_validator``: checks of offset commits

Transactions:

* ``init_producer_id``: InitProducerId
* ``transactions``: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn
* ``txn_offset_commit``: TxnOffsetCommit
* ``write_txn_markers``: WriteTxnMarkers
* ``transaction_admin``: DescribeTransactions, ListTransactions
* ``describe_producers``: DescribeProducers

Between brokers:

* ``share_state``: InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState, DeleteShareGroupState,
  ReadShareGroupStateSummary
* ``inter_broker``: Introduce, MetadataUpdate, AlterPartitions, ShutDown, ReportFailed, ReportReplicas, ReportLogEnds
* ``inter_broker_identity``: checks that a connection's peer is a broker
* ``ask_plugin``: AskPlugin
"""
