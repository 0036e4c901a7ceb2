"""
Transactions: several partitions, and a group's offsets, change together or not at all (KIP-98, KIP-360, KIP-890).

========================================================= ===========================================================
:mod:`~logbus.coordination.transactions.transaction`      what is known of one transactional id (pure)
:mod:`~logbus.coordination.transactions.states`           its states, and the moves between them: a table (pure)
:mod:`~logbus.coordination.transactions.machine`          what becomes of it, whatever is asked (pure)
:mod:`~logbus.coordination.transactions.beginning`        of that, what a new producer and time do (pure)
:mod:`~logbus.coordination.transactions.step`             what a decision comes to (pure)
:mod:`~logbus.coordination.transactions.records`          both as records of ``__transaction_state`` (pure)
:mod:`~logbus.coordination.transactions.views`            what is to be seen of many of them (pure)
:mod:`~logbus.coordination.transactions.shard`            one partition with its ids: what is durable holds
:mod:`~logbus.coordination.transactions.loading`          how a partition comes back after a start
:mod:`~logbus.coordination.transactions.coordinator`      ids by partition, leadership, what producers ask
:mod:`~logbus.coordination.transactions.limits`           how much a broker coordinates
:mod:`~logbus.coordination.transactions.markers`          the end of a transaction on its way to all partitions
:mod:`~logbus.coordination.transactions.ending`           what a marker says (pure)
:mod:`~logbus.coordination.transactions.spelling`         the same in the words of WriteTxnMarkers (pure)
:mod:`~logbus.coordination.transactions.writer`           the same where it arrives
:mod:`~logbus.coordination.transactions.expiry`           transactions that take too long, ids that nobody uses
:mod:`~logbus.coordination.transactions.participation`    the coordinator, asked by leaders of partitions
:mod:`~logbus.coordination.transactions.lookup`           all coordinators, asked for producers by their ids
:mod:`~logbus.coordination.transactions.hanging`          which transactions a client may abort
========================================================= ===========================================================

Every step is written before anything follows from it: the partitions that take part, before their records are
appended; the decision, before it is told and before any marker; that all markers are there, before the next
transaction. A broker that takes over reads how far it came, and goes on from there.
"""
