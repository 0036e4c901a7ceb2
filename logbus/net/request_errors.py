"""
Counts the errors in responses, by API and code (Kafka: ``ErrorsPerSec``).

One response may have many: a code for each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import define, field

from logbus.errors import ErrorCode
from logbus.metrics import Family, Sample

NAME = "logbus_request_errors_total"
HELP = "Errors in responses to Kafka clients and brokers, by API and name; one for each element that has one."


@define(eq=False)
class RequestErrors:
    """
    The errors in the responses of all connections.

    :ivar counts: by API key and code.
    """

    counts: dict[tuple[int, int], int] = field(factory=dict, init=False)

    def count(self, api_key: int, code: int) -> None:
        """Count an error."""
        key = api_key, code
        self.counts[key] = self.counts.get(key, 0) + 1

    def family(self, name_of: Callable[[int], str]) -> Family:
        """
        The errors as a metric.

        :param name_of: the name of an API, by its key.
        """
        return Family(NAME, HELP, "counter", self._samples(name_of))

    def _samples(self, name_of: Callable[[int], str]) -> Iterator[Sample]:
        named = [(name_of(api_key), _name(code), count) for (api_key, code), count in self.counts.items()]
        for api, error, count in sorted(named):
            yield Sample(NAME, (("api", api), ("error", error)), count)


def _name(code: int) -> str:
    known = ErrorCode._value2member_map_.get(code)
    return str(code) if known is None else known.name
