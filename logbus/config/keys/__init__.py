"""
Every configuration key, declared once, by subject.

``broker`` (identity, metadata store), ``network``, ``topics``, ``storage``, ``cleaner``, ``groups``, ``transactions``,
``replication``, ``quotas``, ``security``, ``admin``; ``foreign`` has Kafka's keys that mean nothing here. All constants
are also attributes of this package: ``keys.NUM_PARTITIONS``.
"""

from logbus.config.keys.admin import *  # noqa: F403
from logbus.config.keys.broker import *  # noqa: F403
from logbus.config.keys.cleaner import *  # noqa: F403
from logbus.config.keys.groups import *  # noqa: F403
from logbus.config.keys.network import *  # noqa: F403
from logbus.config.keys.quotas import *  # noqa: F403
from logbus.config.keys.replication import *  # noqa: F403
from logbus.config.keys.security import *  # noqa: F403
from logbus.config.keys.storage import *  # noqa: F403
from logbus.config.keys.topics import *  # noqa: F403
from logbus.config.keys.transactions import *  # noqa: F403
