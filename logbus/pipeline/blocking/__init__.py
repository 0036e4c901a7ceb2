"""
A small client that blocks, for Spark's drivers and workers: no reactor, no sockets in what is pickled.

::

    settings.py    how to reach the brokers: read from kafka.* options, pickled to workers
    security.py    TLS
    sasl.py        the words of PLAIN and SCRAM; pure
    connection.py  one connection: requests out, answers in
    pool.py        connections, kept per process and used by one thread at a time
    brokers.py     the cluster: who leads what, who coordinates what
    retry.py       which failures are worth another attempt, and how long to wait before it
    offsets.py     offsets by time
    fetching.py    a range of a partition, fetched ahead
"""

from logbus.pipeline.blocking.brokers import Brokers, brokers_for
from logbus.pipeline.blocking.connection import Connection
from logbus.pipeline.blocking.connection_settings import ConnectionSettings
from logbus.pipeline.blocking.list_offsets import EARLIEST, LATEST, OffsetAndTimestamp

__all__ = ["EARLIEST", "LATEST", "Brokers", "Connection", "OffsetAndTimestamp", "ConnectionSettings", "brokers_for"]
