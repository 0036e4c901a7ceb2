"""
A small blocking client for Spark's drivers and workers, without a reactor.

Connections:

* ``connection_settings``: the settings of connections, from ``kafka.*`` options; pickled to workers
* ``jaas``: credentials from ``sasl.jaas.config``
* ``tls``: the TLS context
* ``sasl``: the client side of PLAIN, SCRAM and OAUTHBEARER
* ``oauth_token``: the token of OAUTHBEARER: from a file, an endpoint or a function
* ``connection``: one connection: requests and responses
* ``connection_pool``: connections of a process, each used by one thread at a time
* ``receive_buffers``: reusable buffers for large responses
* ``brokers``: cluster metadata, coordinators and connections
* ``retry``: retriable errors, and backoff between attempts
* ``patience``: says of brokers that do not answer that they do not
* ``schema_registry``: schemas from a schema registry, by HTTP

Reading; responses go from the thread of ``prefetcher`` to ``range_reader``, which decodes them:

* ``list_offsets``: offsets by time
* ``prefetcher``: fetches a range of a partition in a thread
* ``range_reader``: reads a range of a partition as columns

Writing; batches go from ``producer`` through ``partition_batches`` into requests:

* ``producer``: sends encoded batches until they are written
* ``partition_batches``: the waiting and in-flight batches of one partition
* ``produce_requests``: Produce requests and their results
* ``transactions``: producer ids, transactions and committed offsets
* ``coordinator_requests``: requests to coordinators, with retries
"""

from logbus.pipeline.blocking.brokers import Brokers, brokers_for
from logbus.pipeline.blocking.connection import Connection
from logbus.pipeline.blocking.connection_settings import ConnectionSettings
from logbus.pipeline.blocking.list_offsets import EARLIEST, LATEST

__all__ = ["EARLIEST", "LATEST", "Brokers", "Connection", "ConnectionSettings", "brokers_for"]
