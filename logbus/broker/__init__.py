"""
The composition root: builds a broker of its subsystems, and passes each what it needs.

* ``broker``: the service: builds the subsystems, starts and stops them in order
* ``environment``: the parts that all subsystems are built with: the reactor, clocks, chance, the configuration, metrics
* ``log_storage``: the logs on this broker's disks
* ``cluster_member``: the session, the registration, the metadata, the connections to other brokers
* ``replication``: this broker's replicas, and the parts that fetch, repair and fence them
* ``cluster_control``: the controller, and the administration of topics
* ``coordinators``: the coordinators of groups and transactions
* ``share_partitions``: the partitions that share groups read, of which this broker is the leader
* ``remote_log``: the remote parts of logs, if there is tiered storage
* ``remote_threads``: the threads that read from the object store, and copy to it
* ``tiered_storage``: what that consists of, with its threads
* ``security``: the TLS and the logins of listeners
* ``sasl_listeners``: the logins of listeners with SASL
* ``http_listeners``: the logins of HTTP listeners
* ``scram_accounts``: the SCRAM credentials of users
* ``quotas``: the quotas of users and client ids
* ``kafka_server``: the handlers of the APIs, and the connections of Kafka clients
* ``admin_server``: the factories of HTTP listeners
* ``authorizer``: builds the authorizer
* ``dynamic_broker_config``: applies the brokers' configuration in the metadata store (Kafka: DynamicBrokerConfig)
* ``mirror``: a mirror of another cluster's topics, while this broker is the controller
* ``mirrors``: all of these
* ``broker_conditions``: makes the monitor of a broker's conditions
* ``condition_sources``: finds what is wrong with this broker
* ``condition_monitor``: keeps the conditions, and tells the log of them
* ``garbage_collection``: delays the process's garbage collections while the broker has much to do
* ``readiness``: whether clients should use this broker now
* ``plugin_services``: the services of a broker for its plugins
* ``plugin_client``: rights and quotas of the clients of a plugin's listener
* ``plugin_files``: files of plugins beside logs

They are built in this order, each of those before it: logs, then the member of a cluster, replication, the controller,
coordinators, and the Kafka server.
"""

from logbus.broker.broker import Broker

__all__ = ["Broker"]
