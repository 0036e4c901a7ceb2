"""
Transactions: several partitions, and a group's offsets, change together or not at all (KIP-98, KIP-360, KIP-890).

========================================================= ===========================================================
:mod:`~logbus.coordination.transactions.transaction_metadata`      what is known of one transactional id (pure)
:mod:`~logbus.coordination.transactions.transaction_state`           its states, and the moves between them: a table
    (pure)
:mod:`~logbus.coordination.transactions.state_machine`          what becomes of it, whatever is asked (pure)
:mod:`~logbus.coordination.transactions.init_producer_id`        of that, what a new producer and time do (pure)
:mod:`~logbus.coordination.transactions.transition`             what a decision comes to (pure)
:mod:`~logbus.coordination.transactions.transaction_records`          both as records of ``__transaction_state`` (pure)
:mod:`~logbus.coordination.transactions.transaction_summary`            what is to be seen of many of them (pure)
:mod:`~logbus.coordination.transactions.transaction_shard`            one partition with its ids: what is durable holds
:mod:`~logbus.coordination.transactions.transaction_loader`          how a partition comes back after a start
:mod:`~logbus.coordination.transactions.transaction_coordinator`      ids by partition, leadership, what producers ask
:mod:`~logbus.coordination.transactions.transaction_limits`           how much a broker coordinates
:mod:`~logbus.coordination.transactions.marker_channel_manager`          the end of a transaction on its way to all
    partitions
:mod:`~logbus.coordination.transactions.end_transaction_marker`           what a marker says (pure)
:mod:`~logbus.coordination.transactions.marker_codec`         the same in the words of WriteTxnMarkers (pure)
:mod:`~logbus.coordination.transactions.marker_writer`           the same where it arrives
:mod:`~logbus.coordination.transactions.transaction_expiration`           transactions that take too long, ids that
    nobody uses
:mod:`~logbus.coordination.transactions.add_partitions_to_txn_manager`    the coordinator, asked by leaders of
    partitions
:mod:`~logbus.coordination.transactions.transaction_lookup`           all coordinators, asked for producers by their ids
:mod:`~logbus.coordination.transactions.hanging_transactions`          which transactions a client may abort
========================================================= ===========================================================

Every step is written before anything follows from it: the partitions that take part, before their records are
appended; the decision, before it is told and before any marker; that all markers are there, before the next
transaction. A broker that takes over reads how far it came, and goes on from there.
"""
