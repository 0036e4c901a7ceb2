"""
Producers: batches, requests, idempotence, transactions.

The producer and its buffer:

* ``producer``: Producer: the public class
* ``producer_options``: ProducerOptions: its options, checked
* ``producer_record``: ProducerRecord, RecordMetadata, and errors of sending
* ``record_builder``: RecordBuilder: calls interceptors and serializers
* ``record_diagnosis``: says what is wrong with a record that cannot be encoded; pure
* ``buffer_pool``: BufferPool: bounds memory; records that wait for room or for metadata
* ``backpressure``: Backpressure: makes callers wait
* ``record_router``: RecordRouter: finds the queue of a record's partition
* ``partitioner``: chooses partitions by key or in turns
* ``record_accumulator``: RecordAccumulator: the batches of all partitions; pure
* ``partition_queue``: PartitionQueue, ProducerBatch: the batches of one partition; pure
* ``encoded_batch``: EncodedBatch: a batch of another log, sent as it is; pure
* ``producer_metrics``: ProducerMetrics: counters

Sending:

* ``sender``: Sender: sends batches and retries them
* ``produce_requests``: builds requests and reads responses
* ``batch_deadlines``: BatchDeadlines: delivery timeouts
* ``delivery_reports``: DeliveryReports: completes the Deferreds of records
* ``deferreds``: a Deferred that can be cancelled without cancelling the work it waits for

Idempotence and transactions:

* ``idempotence``: sequence numbers, and decisions about failed batches; pure
* ``producer_identity``: ProducerIdentity: the producer id without transactions
* ``transaction_manager``: TransactionManager: the state of a transactional producer
* ``transaction``: Transaction: the application's ``async with``
* ``transaction_errors``: TransactionAborted, ProducerUnusable, and so on
* ``transaction_messages``: builds requests of transactions and reads error codes; pure
* ``coordinator_requests``: CoordinatorRequests: requests to a coordinator, with retries

A record's path: ``producer`` passes it through ``record_builder`` and ``record_router`` to a batch in the
``record_accumulator``; if the buffer is full it waits in the ``buffer_pool``. ``sender`` sends the batch to the leader,
and ``delivery_reports`` completes the record's Deferred.
"""
