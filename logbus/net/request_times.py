"""
How long requests take, by API and phase (Kafka: ``RequestQueueTimeMs``, ``LocalTimeMs``, ``RemoteTimeMs``,
``ResponseSendTimeMs``, ``TotalTimeMs``).

It runs for each request, a few times: it is compiled where that is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic

from logbus.metrics import LATENCY_BUCKETS, Family, HistogramValue, Sample, histogram_samples

NAME = "logbus_request_seconds"
HELP = (
    "How long requests took: queue, until they were served; local, being served; remote, waiting for replicas, records "
    "or other requests; total of these; send, until the system had taken the response."
)


class PhaseTimes:
    """
    The durations of one phase, as :class:`.HistogramValue` has them.

    :ivar counts: for each of the buckets, and one more.
    """

    def __init__(self) -> None:
        self.bounds = LATENCY_BUCKETS
        self.counts = [0] * (len(LATENCY_BUCKETS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float, count: int) -> None:
        """Count a duration that ``count`` requests had."""
        bucket = 0
        for bound in self.bounds:
            if seconds <= bound:
                break
            bucket += 1
        self.counts[bucket] += count
        self.sum += seconds * count

    def histogram(self) -> HistogramValue:
        """Return a copy."""
        value = HistogramValue(LATENCY_BUCKETS)
        value.counts, value.sum = list(self.counts), self.sum
        return value


class ApiTimes:
    """
    The phases of the requests of one API.

    :ivar remote: of those that had to wait; ``send``: of responses that were not taken at once.
    """

    def __init__(self) -> None:
        self.queue = PhaseTimes()
        self.local = PhaseTimes()
        self.remote = PhaseTimes()
        self.total = PhaseTimes()
        self.send = PhaseTimes()

    def phases(self) -> Iterator[tuple[str, HistogramValue]]:
        """Yield the histograms by name; in all of them are as many requests as in ``total``."""
        total = self.total.histogram()
        yield "queue", self.queue.histogram()
        yield "local", self.local.histogram()
        for name, phase in (("remote", self.remote), ("send", self.send)):
            some = phase.histogram()
            # The others took no time.
            some.counts[0] += max(total.count - some.count, 0)
            yield name, some
        yield "total", total


class RequestTimes:
    """
    Measures the requests of all connections. Times are those of ``seconds``.

    :param seconds: a monotonic clock.
    :ivar mark: when what happened last ended, and so the next request begins to be served.
    :ivar last: of the API that was answered last.
    """

    def __init__(self, seconds: Callable[[], float] = monotonic) -> None:
        self.seconds = seconds
        self.mark = 0.0
        self.last = ApiTimes()
        self.apis: dict[int, ApiTimes] = {}

    def begin(self, held_since: float = 0.0, found: float = 0.0) -> float:
        """
        A connection begins to serve.

        :param held_since: since when its requests are held; 0: they are not.
        :param found: when it was found readable; 0: now.
        :returns: when its requests were received.
        """
        self.mark = self.seconds()
        return held_since or found or self.mark

    def served(self, api_key: int, count: int, received: float, together: bool = False) -> None:
        """
        Requests that began at the mark have their responses.

        :param together: others were served at once with them: the mark stays.
        """
        times = self._of(api_key)
        mark, now = self.mark, self.seconds()
        times.queue.observe(mark - received, count)
        times.local.observe(now - mark, count)
        times.total.observe(now - received, count)
        if not together:
            self.mark = now

    def handed_over(self, api_key: int, count: int, received: float) -> float:
        """Requests that began at the mark wait now; returns the time."""
        times = self._of(api_key)
        mark, now = self.mark, self.seconds()
        times.queue.observe(mark - received, count)
        times.local.observe(now - mark, count)
        self.mark = now
        return now

    def answered(self, api_key: int, count: int, received: float, since: float) -> None:
        """Requests that have waited since then have their responses."""
        times, now = self._of(api_key), self.seconds()
        times.remote.observe(now - since, count)
        times.total.observe(now - received, count)

    def add(self, api_key: int, counts: Sequence[int], seconds: float) -> None:
        """
        Add requests that were served elsewhere, at once.

        :param counts: how many took how long, by the buckets.
        :param seconds: they took together.
        """
        times = self._of(api_key)
        times.queue.observe(0.0, sum(counts))
        for phase in (times.local, times.total):
            phase.counts = [before + count for before, count in zip(phase.counts, counts, strict=True)]
            phase.sum += seconds

    def _of(self, api_key: int) -> ApiTimes:
        times = self.apis.get(api_key)
        if times is None:
            times = self.apis[api_key] = ApiTimes()
        self.last = times
        return times

    def family(self, name_of: Callable[[int], str]) -> Family:
        """
        The times as a metric.

        :param name_of: the name of an API, by its key.
        """
        return Family(NAME, HELP, "histogram", self._samples(name_of))

    def _samples(self, name_of: Callable[[int], str]) -> Iterator[Sample]:
        for name, api_key in sorted((name_of(api_key), api_key) for api_key in self.apis):
            for phase, value in self.apis[api_key].phases():
                yield from histogram_samples(NAME, (("api", name), ("phase", phase)), value)
