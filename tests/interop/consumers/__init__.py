"""
Group consumers of other libraries and of logbus, with a common interface; :mod:`tests.interop.member_groups` runs them.

Each says when partitions come and go through the library's own callbacks, so that what a test sees is what an
application would see.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AioSticky
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as PyCooperative
from kafka.coordinator.assignors.range import RangePartitionAssignor as PyRange
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as PyRoundRobin
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as PySticky

from tests.interop.consumers.aiokafka_consumer import Aiokafka
from tests.interop.consumers.confluent_consumer import Confluent
from tests.interop.consumers.interface import SECONDS, Committed, Consumer, Listener, Place, Record, Settings
from tests.interop.consumers.kafka_python_consumer import KafkaPython
from tests.interop.consumers.logbus_aio_consumer import OursOnAsyncio
from tests.interop.consumers.logbus_consumer import Ours

__all__ = ["KINDS", "LIBRARIES", "SECONDS", "Committed", "Consumer", "Listener", "Place", "Record", "Settings"]

Make = Callable[[Settings, Listener], Consumer]

#: Every library with every way of sharing out partitions that it knows.
KINDS: dict[str, Make] = {
    "confluent-range": functools.partial(Confluent, "classic", "range"),
    "confluent-roundrobin": functools.partial(Confluent, "classic", "roundrobin"),
    "confluent-cooperative": functools.partial(Confluent, "classic", "cooperative-sticky"),
    "confluent-consumer-uniform": functools.partial(Confluent, "consumer", "uniform"),
    "confluent-consumer-range": functools.partial(Confluent, "consumer", "range"),
    "kafka-python-range": functools.partial(KafkaPython, PyRange),
    "kafka-python-roundrobin": functools.partial(KafkaPython, PyRoundRobin),
    "kafka-python-sticky": functools.partial(KafkaPython, PySticky),
    "kafka-python-cooperative": functools.partial(KafkaPython, PyCooperative),
    "aiokafka-range": functools.partial(Aiokafka, AioRange),
    "aiokafka-roundrobin": functools.partial(Aiokafka, AioRoundRobin),
    "aiokafka-sticky": functools.partial(Aiokafka, AioSticky),
    "logbus-range": functools.partial(Ours, "classic", "range"),
    "logbus-roundrobin": functools.partial(Ours, "classic", "roundrobin"),
    "logbus-sticky": functools.partial(Ours, "classic", "sticky"),
    "logbus-cooperative": functools.partial(Ours, "classic", "cooperative-sticky"),
    "logbus-consumer-uniform": functools.partial(Ours, "consumer", "uniform"),
    "logbus-consumer-range": functools.partial(Ours, "consumer", "range"),
    "logbus-aio-cooperative": functools.partial(OursOnAsyncio, "classic", "cooperative-sticky"),
    "logbus-aio-consumer-uniform": functools.partial(OursOnAsyncio, "consumer", "uniform"),
}
#: One of each library and protocol, for what does not depend on who gets which partition.
LIBRARIES = (
    "confluent-range",
    "confluent-consumer-uniform",
    "kafka-python-range",
    "aiokafka-range",
    "logbus-range",
    "logbus-consumer-uniform",
    "logbus-aio-consumer-uniform",
)
