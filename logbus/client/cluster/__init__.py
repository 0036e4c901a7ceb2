"""
A client's view of a cluster: brokers, connections, metadata, coordinators.

* ``cluster``: Cluster: cached metadata, and the way to each broker
* ``broker_connections``: BrokerConnections: connections by address and lane
* ``metadata_cache``: MetadataCache: brokers and topics; pure
* ``topic_metadata``: Node, TopicMetadata, PartitionMetadata; pure
* ``coordinators``: Coordinators: finds coordinators of groups and transactional ids, and sends them requests
* ``attempts``: Attempts: waits between attempts at a request
* ``addresses``: parses bootstrap addresses
* ``broker_outages``: BrokerOutages: the brokers that cannot be reached, for the log; pure
* ``last_resort``: standard error, for the warnings of a program that shows no log
* ``cluster_metrics``: ClusterMetrics: counts of connections and requests, and latencies
"""
