"""Links between hosts: latency and cuts, for each direction."""

from __future__ import annotations

from random import Random

from attrs import define, field


@define(eq=False)
class Link:
    """
    One direction between two hosts.

    :ivar latency: seconds, at least; ``jitter``: more on average, differently for each segment.
    :ivar cuts: the number of faults that cut it.
    :ivar cut_since: when the first of them began.
    :ivar stopped: the number of segments stopped by cuts so far.
    """

    latency: float = 0.0002
    jitter: float = 0.0002
    cuts: int = 0
    cut_since: float = 0.0
    stopped: int = 0

    def delay(self, random: Random) -> float:
        """The delay of a segment."""
        return self.latency + random.expovariate(1.0) * self.jitter


@define(eq=False)
class Links:
    """
    All directions, by (from, to).

    :ivar latency: of each, in seconds, without a fault.
    """

    latency: float = 0.0002
    _links: dict[tuple[str, str], Link] = field(factory=dict, init=False)

    def between(self, source: str, target: str) -> Link:
        """The link in one direction."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(self.latency, self.latency)
        return link
