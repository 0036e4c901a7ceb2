"""The plugin that speaks Kafka 0.7 on a listener."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from twisted.internet.interfaces import IProtocolFactory
from twisted.plugin import IPlugin
from zope.interface import implementer

from logbus.ilogbus import IBroker, IProtocolPlugin, Listener

if TYPE_CHECKING:
    from logbus.kafka07.service import KafkaSevenService


@implementer(IPlugin, IProtocolPlugin)
class KafkaSevenPlugin:
    """
    ``kafka07``: no listener speaks it unless one is given by ``--listen``.

    All listeners of a broker share its virtual logs, since each of those has one index.
    """

    name = "kafka07"
    summary = "Kafka 0.7's protocol, for clients of 2012"

    def __init__(self) -> None:
        self._services: WeakKeyDictionary[IBroker, KafkaSevenService] = WeakKeyDictionary()

    def factory(self, broker: IBroker, listener: Listener) -> IProtocolFactory:
        from logbus.kafka07.factory import KafkaSevenFactory
        from logbus.kafka07.service import KafkaSevenService
        from logbus.kafka07.virtual_logs import VirtualLogs

        service = self._services.get(broker)
        if service is None:
            clock: Any = broker.reactor
            service = self._services[broker] = KafkaSevenService(broker, clock, VirtualLogs(broker, clock))
        return KafkaSevenFactory(broker, listener, service, broker.reactor)
