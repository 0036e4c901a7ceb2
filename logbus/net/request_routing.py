"""
The functions by which a listener's connections have their requests served, and what else these connections share.

:class:`.RequestDispatcher` calls them, on the reactor thread; :class:`logbus.net.factory.KafkaServerFactory` is given
them. They answer errors of the request itself: an exception is a bug, and closes the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from twisted.internet.defer import Deferred

from logbus.net.prepared_fetches import FetchPreparer
from logbus.net.produce_gatherer import GatheredProduceRouter
from logbus.net.request_context import RequestContext
from logbus.net.shared_resources import SharedResources
from logbus.records.file_slice import Parts
from logbus.wire.connection import Request, ServerConnection
from logbus.wire.fetch_template import FetchTemplateCache, RepeatedFetch
from logbus.wire.request_template import CoalescedProduce, TemplateCache

Answer: TypeAlias = Any
"""A response message, or ``bytes`` (a response body already encoded), or None: nothing is sent (acks=0)."""

Router: TypeAlias = Callable[[RequestContext, Request], "Answer | Deferred[Answer]"]

CoalescedProduceRouter: TypeAlias = Callable[[RequestContext, CoalescedProduce], "bytes | Deferred[bytes] | None"]
"""
Serves several Produce requests together; returns their encoded responses, or a Deferred of them. None: nothing was
done, and the first request must be served by itself.
"""

RepeatedFetchRouter: TypeAlias = Callable[[RequestContext, RepeatedFetch], "Parts | Deferred[Parts] | None"]
"""
Serves a Fetch request that was recognized; returns the encoded response, or a Deferred of it. None: nothing was done,
and the request must be decoded.
"""

ProducePreparer: TypeAlias = Callable[[RequestContext, Request], "Deferred[None] | None"]
"""
What a Produce request waits for before it is served: a Deferred, in whose callback it is served. Its records must not
change until then. None: it need not wait.
"""


class RequestRouting(Protocol):
    """
    The routers and templates that the connections of one listener share:
    :class:`logbus.net.factory.KafkaServerFactory`.
    """

    shared: SharedResources
    wire: ServerConnection
    router: Router
    coalesced_router: CoalescedProduceRouter | None
    gathered_router: GatheredProduceRouter | None
    repeated_router: RepeatedFetchRouter | None
    preparer: ProducePreparer | None
    fetch_preparer: FetchPreparer | None
    templates: TemplateCache
    fetch_templates: FetchTemplateCache
