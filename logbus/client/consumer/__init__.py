"""
Consumers: fetching, positions, delivery to the application, commits.

Consumer and its group:

* ``consumer``: Consumer: the public class
* ``consumer_options``: ConsumerOptions: its options, checked
* ``consumer_arguments``: checks the arguments of its methods
* ``group_subscription``: GroupSubscription: joins the group, and leaves it
* ``assignment_listener``: AssignmentListener: applies the group's assignment to the fetcher
* ``committer``: Committer: commits offsets, on demand and periodically
* ``delivered_offsets``: DeliveredOffsets: partitions with uncommitted records, by generation; pure
* ``offsets_by_time``: OffsetsByTime: Consumer's lookups of offsets
* ``simple_consumer``: SimpleConsumer: single requests, without positions or retries

Delivery:

* ``record_poller``: RecordPoller: delivers records to one loop
* ``record_processor``: RecordProcessor: processes records side by side, in order per key
* ``work_ledger``: WorkLedger: which of these may begin, and which are finished; pure
* ``batch_delivery``: BatchDelivery: a batch being delivered; pure
* ``consumer_record``: ConsumerRecord, Fetched: records as the application gets them

Fetching:

* ``fetcher``: Fetcher: fetches the assigned partitions
* ``assigned_partitions``: AssignedPartitions: their positions and fetched data; pure
* ``fetch_options``: FetchOptions: the options of fetching
* ``broker_fetches``: BrokerFetches: the fetches from one broker
* ``fetch_session_handler``: FetchSessionHandler: an incremental fetch session (KIP-227); pure
* ``partition_position``: PartitionPosition: the fetch state of a partition; pure
* ``position_lookup``: looks up leaders, and offsets of positions such as "latest"
* ``offset_for_leader_epoch``: detects truncated logs (KIP-320)
* ``fetch_buffer``: FetchBuffer: fetched data not delivered yet; pure
* ``completed_fetch``: CompletedFetch: fetched batches, still encoded

A record's path: ``broker_fetches`` sends a Fetch and makes a CompletedFetch of each partition in the response;
``fetcher`` puts it into the ``fetch_buffer`` of the ``assigned_partitions``; ``record_poller`` takes and deserializes
it, and the application's loop gets its records. When the loop asks for more, ``committer`` may commit their offsets.
"""
