"""The resources that the connections of all listeners share."""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen
from twisted.internet.interfaces import IReactorTime

from logbus.net.arrivals import Arrivals
from logbus.net.connection_limits import ConnectionLimits, ConnectionQuotas, UnsentReplies, WarningLimiter
from logbus.net.large_requests import LargeRequestScheduler
from logbus.net.lost_connections import LostConnections
from logbus.net.metrics import NetMetrics
from logbus.net.produce_gatherer import ProduceGatherer
from logbus.net.read_turn import ReadTurn
from logbus.net.request_budget import RequestBudget
from logbus.net.request_errors import RequestErrors
from logbus.net.request_times import RequestTimes
from logbus.net.time_slices import SliceScheduler
from logbus.net.turn_times import TurnTimes
from logbus.quotas.connection_rates import ConnectionRates
from logbus.quotas.quota_managers import QuotaManagers
from logbus.wire.buffer_pool import BufferPool


def _no_pause(listener: str, seconds: float) -> None:
    """Nobody pauses listeners."""


@frozen(eq=False)
class SharedResources:
    """
    The limits of connections, and what all listeners count and divide among them (Kafka: SocketServer has these).

    :ivar clock: the reactor, for later turns and deadlines.
    :ivar limits: of connections and peers.
    :ivar metrics: counters.
    :ivar times: how long requests take.
    :ivar errors: counts the errors in responses.
    :ivar budget: memory for large frames.
    :ivar buffers: of large frames, used in turn.
    :ivar quotas: counts connections.
    :ivar arrivals: the connections that were opened lately.
    :ivar lost: tells of connections that are lost.
    :ivar unsent: replies that peers have not taken.
    :ivar scheduler: gives time slices to requests of many elements.
    :ivar warning_limiter: limits warnings about peers.
    :ivar client_quotas: the quotas of users and client ids.
    :ivar rates: of new connections.
    :ivar turn: of the reactor; another reactor than ours has none, and each connection is served at once.
    :ivar gatherer: of the Produce requests of several connections.
    :ivar large_requests: has them take turns with small ones.
    :ivar pause: stops a listener, by its name, from accepting connections for so many seconds.
    """

    clock: IReactorTime
    limits: ConnectionLimits = field(factory=ConnectionLimits)
    metrics: NetMetrics = field(factory=NetMetrics)
    times: RequestTimes = field(factory=RequestTimes)
    errors: RequestErrors = field(factory=RequestErrors)
    budget: RequestBudget = field()
    buffers: BufferPool = field(factory=BufferPool)
    quotas: ConnectionQuotas = field()
    arrivals: Arrivals = field()
    lost: LostConnections = field(factory=LostConnections)
    unsent: UnsentReplies = field()
    scheduler: SliceScheduler = field()
    warning_limiter: WarningLimiter = field()
    client_quotas: QuotaManagers = field(factory=QuotaManagers)
    rates: ConnectionRates = field(factory=lambda: ConnectionRates(lambda: 0.0))
    pause: Callable[[str, float], object] = field(default=_no_pause)
    turn: ReadTurn = field()
    gatherer: ProduceGatherer = field()
    large_requests: LargeRequestScheduler = field()

    @budget.default
    def _budget(self) -> RequestBudget:
        return RequestBudget(256 * 1024 * 1024, self.metrics, self.clock)

    @quotas.default
    def _quotas(self) -> ConnectionQuotas:
        return ConnectionQuotas(self.limits)

    @arrivals.default
    def _arrivals(self) -> Arrivals:
        return Arrivals(self.clock.seconds)

    @unsent.default
    def _unsent(self) -> UnsentReplies:
        return UnsentReplies(self.limits.max_unsent_in_all)

    @scheduler.default
    def _scheduler(self) -> SliceScheduler:
        return SliceScheduler(self.clock)

    @turn.default
    def _turn(self) -> ReadTurn:
        turn = getattr(self.clock, "turn", None)
        return turn if isinstance(turn, ReadTurn) else ReadTurn()

    @gatherer.default
    def _gatherer(self) -> ProduceGatherer:
        return ProduceGatherer(self.turn)

    @large_requests.default
    def _large_requests(self) -> LargeRequestScheduler:
        turns, seconds = getattr(self.clock, "turns", None), self.times.seconds
        idle = (lambda: turns.idle) if isinstance(turns, TurnTimes) else seconds
        return LargeRequestScheduler(self.clock, seconds, idle)

    @warning_limiter.default
    def _warning_limiter(self) -> WarningLimiter:
        return WarningLimiter(self.clock.seconds)
