"""
A client's view of a cluster: brokers, connections, metadata, coordinators.

* ``cluster``: Cluster: cached metadata, and a connection to each broker
* ``topic_metadata``: Node, TopicMetadata, PartitionMetadata; pure
* ``coordinators``: Coordinators: finds coordinators of groups and transactional ids, and sends them requests
* ``addresses``: parses bootstrap addresses
* ``broker_outages``: decides which connection failures are logged; pure
"""
