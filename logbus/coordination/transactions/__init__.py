"""
The transaction coordinator: changes several partitions and a group's offsets atomically (KIP-98, KIP-360, KIP-890).

A request goes to ``transaction_coordinator``, which finds the shard of the transactional id. ``state_machine`` decides
on a transition, which is written to ``__transaction_state`` before it takes effect. When a commit or abort is durable,
``marker_channel_manager`` sends the markers to the leaders of all partitions, and then the completion is written. A
broker that takes over reads the last durable state, and goes on from there.

The state of a transactional id, pure:

* ``transaction_metadata``: the state of one id (Kafka: TransactionMetadata)
* ``transaction_state``: its states and the transitions between them
* ``state_machine``: decisions on requests of producers
* ``init_producer_id``: decisions on InitProducerId, timeouts and expiration
* ``transition``: the result of a decision, and common checks
* ``transaction_records``: the state to records and back
* ``transaction_summary``: states and durations of many ids

The coordinator:

* ``transaction_coordinator``: the ids of this broker, by partition, with leadership
* ``transaction_shard``: a partition of ``__transaction_state`` with its ids
* ``transaction_loader``: loads a shard from its log
* ``transaction_expiration``: aborts transactions that time out, and removes expired ids
* ``transaction_metrics``: metrics of transactional ids, and of open transactions in partitions

Markers:

* ``end_transaction_marker``: the outcome of a transaction, as its markers carry it (pure)
* ``marker_codec``: markers to WriteTxnMarkers requests, and its responses back (pure)
* ``marker_channel_manager``: sends markers to the leaders of partitions, then completes the transaction
* ``pending_complete_txn``: a transaction whose markers are being sent
* ``txn_marker_queue``: the markers on their way to one broker
* ``marker_writer``: writes markers to partitions led by this broker

For other brokers and tools:

* ``add_partitions_to_txn_manager``: adds or verifies partitions at the coordinator, for leaders of partitions
* ``transaction_lookup``: finds ongoing transactions by producer id, at all coordinators
* ``hanging_transactions``: finds those that nobody ends, and decides which a client may abort
"""
