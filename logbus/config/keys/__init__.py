"""
The declarations of all configuration keys; their constants are also attributes of this package:
``keys.NUM_PARTITIONS``.

* ``broker``: identity, metadata store, shutdown
* ``network``: listeners, connections, limits of requests
* ``topics``: topic creation and defaults
* ``storage``: segments, flushing, retention
* ``cleaner``: cleanup policy, compaction
* ``remote_log``: tiered storage
* ``replication``: followers
* ``groups``: consumer groups
* ``share_groups``: share groups
* ``streams_groups``: streams groups
* ``transactions``: idempotent producers, transactions
* ``share_coordinator``: the share coordinator
* ``quotas``: quotas
* ``security``: TLS, SASL, ACLs
* ``admin``: the admin listener
* ``logging``: the log of the process
* ``mirror``: the mirrors that a broker runs, and the options of ``logbus mirror``
* ``ignored``: keys of Kafka that are accepted and ignored
* ``declare``: functions that declare keys
"""

from logbus.config.keys.admin import *  # noqa: F403
from logbus.config.keys.broker import *  # noqa: F403
from logbus.config.keys.cleaner import *  # noqa: F403
from logbus.config.keys.groups import *  # noqa: F403
from logbus.config.keys.logging import *  # noqa: F403
from logbus.config.keys.mirror import *  # noqa: F403
from logbus.config.keys.network import *  # noqa: F403
from logbus.config.keys.quotas import *  # noqa: F403
from logbus.config.keys.remote_log import *  # noqa: F403
from logbus.config.keys.replication import *  # noqa: F403
from logbus.config.keys.security import *  # noqa: F403
from logbus.config.keys.share_coordinator import *  # noqa: F403
from logbus.config.keys.share_groups import *  # noqa: F403
from logbus.config.keys.storage import *  # noqa: F403
from logbus.config.keys.streams_groups import *  # noqa: F403
from logbus.config.keys.topics import *  # noqa: F403
from logbus.config.keys.transactions import *  # noqa: F403
