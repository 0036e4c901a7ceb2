"""The quotas that users, client ids and addresses can have (Kafka: QuotaConfig). Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from attrs import frozen

from logbus.errors import ConfigError


@frozen
class ClientQuota:
    """
    A quota.

    :ivar highest: None: it is a fraction, of any size; otherwise a whole number up to this one.
    :ivar unit: for people.
    """

    name: str
    highest: int | None
    unit: str

    def text(self, value: float) -> str:
        """
        A value as it is stored.

        :raise ConfigError: it is not valid.
        """
        if not math.isfinite(value) or value <= 0:
            raise ConfigError(f"{self.name} is {value}; it must be more than 0, in {self.unit}")
        if self.highest is None:
            return repr(float(value))
        whole = math.floor(value + 1e-6)
        if abs(whole - value) > 1e-6 or not 0 < whole <= self.highest:
            raise ConfigError(f"{self.name} is {value}; it must be a whole number of {self.unit}, up to {self.highest}")
        return str(whole)

    def value(self, text: str) -> float:
        """
        A stored value.

        :raise ConfigError: it is not a positive number.
        """
        try:
            value = float(text)
        except ValueError:
            raise ConfigError(f"{self.name} is {text[:40]!r}, not a number") from None
        if not math.isfinite(value) or value <= 0:
            raise ConfigError(f"{self.name} is {text[:40]!r}, not a positive number")
        return value


PRODUCER_BYTE_RATE = ClientQuota("producer_byte_rate", 2**63 - 1, "bytes a second")
CONSUMER_BYTE_RATE = ClientQuota("consumer_byte_rate", 2**63 - 1, "bytes a second")
REQUEST_PERCENTAGE = ClientQuota("request_percentage", None, "percent of a processor's time")
CONTROLLER_MUTATION_RATE = ClientQuota("controller_mutation_rate", None, "partitions created or deleted a second")
CONNECTION_CREATION_RATE = ClientQuota("connection_creation_rate", 2**31 - 1, "connections a second")

CLIENT_QUOTAS: Mapping[str, ClientQuota] = MappingProxyType(
    {
        quota.name: quota
        for quota in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
    }
)
"""Those of users and client ids."""

IP_QUOTAS: Mapping[str, ClientQuota] = MappingProxyType({CONNECTION_CREATION_RATE.name: CONNECTION_CREATION_RATE})
"""Those of addresses."""


def quotas_of(settings: Mapping[str, str]) -> dict[str, float]:
    """The quotas among an entity's settings; values that cannot be read are left out."""
    found = {}
    for name, text in settings.items():
        quota = CLIENT_QUOTAS.get(name) or IP_QUOTAS.get(name)
        if quota is not None:
            try:
                found[name] = quota.value(text)
            except ConfigError:
                pass
    return found
