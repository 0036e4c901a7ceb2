"""
What kafka-python's source distribution leaves out of its suite: the package ``test``, and its module ``service``.

A plugin of pytest: ``-p kafka_python_service``, in the process of that suite. It is given a broker that runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.consumer import ConsumerCoordinator


class ExternalService:
    """A broker that was started by somebody else."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """It is open."""

    def stop(self) -> None:
        """It goes on."""


def _refused(*_: Any) -> None:
    raise AssertionError("a suite with a broker of its own starts none")


# Python has a package of this name.
package = ModuleType("test")
package.__path__ = [str(Path.cwd() / "test")]
service: Any = ModuleType("test.service")
service.ExternalService, service.SpawnedService = ExternalService, _refused
sys.modules |= {"test": package, "test.service": service}

# A subscription that is made while the first request for metadata is under way is forgotten by kafka-python 3.0.12: it
# asks for the topic when its metadata are too old, which is after five minutes, and no record comes before.
KafkaConsumer.DEFAULT_CONFIG["metadata_max_age_ms"] = 5000

# A poll that ends while its consumer joins leaves the join to the next poll.  kafka-python 3.0.12 forgets it if the
# consumer leads a group that joins anew, since its topics have more partitions, and that poll ends between JoinGroup
# and SyncGroup: it has no partitions and sends no heartbeats from then on, and a test that polls until it has does not
# end.
_need_rejoin = ConsumerCoordinator.need_rejoin
ConsumerCoordinator.need_rejoin = lambda self: self._join_task is not None or _need_rejoin(self)
