"""
Requests of clients as a test sees them: which API, which topics, which errors in the answer.

* ``apis``: Kafka's APIs by name
* ``partitions``: the topics and partitions that requests name
* ``broker_view``: fills in what requests leave out, since the broker knows it
* ``interception``: puts a recorder and an interceptor between the connections of a broker and its handlers
* ``recorded``: a request that a broker got, and which requests are meant
* ``history``: :class:`RequestHistory`, as a test looks at it: ``broker.requests``
* ``recorder``: writes the requests that pass into a history
"""

from __future__ import annotations

from logbus.testing.requests.history import RequestHistory
from logbus.testing.requests.recorded import RecordedRequest, Wanted, wanted

__all__ = ["RecordedRequest", "RequestHistory", "Wanted", "wanted"]
