"""Injects faults, checks that they have an effect, and ends all of them at the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from logbus.testing.simulation.bitflips import BitFlips
from logbus.testing.simulation.checks.durability_oracle import DurabilityOracle
from logbus.testing.simulation.environment.broker_node import BrokerNode, World
from logbus.testing.simulation.faults.application_faults import ApplicationFaults, Supervisor
from logbus.testing.simulation.faults.broker_faults import BrokerFaults
from logbus.testing.simulation.faults.disk_faults import DiskFaults
from logbus.testing.simulation.faults.fault_log import FaultLog
from logbus.testing.simulation.faults.leader_faults import LeaderFaults
from logbus.testing.simulation.faults.network_faults import NetworkFaults
from logbus.testing.simulation.faults.operator_faults import OperatorFaults
from logbus.testing.simulation.faults.remote_faults import RemoteFaults
from logbus.testing.simulation.faults.store_faults import StoreFaults
from logbus.testing.simulation.faults.transaction_faults import TransactionFaults
from logbus.testing.simulation.faults.worker_faults import WorkerFaults
from logbus.testing.simulation.schedule import Fault
from logbus.testing.simulation.workloads.cluster_operator import ClusterOperator
from logbus.testing.simulation.workloads.tiered_workload import TieredWorkload
from logbus.testing.simulation.workloads.transactions_workload import TransactionsWorkload


class Nemesis:
    """
    Injects faults.

    :param clients: the addresses of clients.
    :param trace: called with a line for each fault.
    :param operator: the client that sends administrative requests.
    :param losses: the records that may be lost, by topic.
    :param transactions: the workload of transactions, if there is one.
    :param application: what starts the processes of a simulated application, if there is one.
    :param tiered: the workload of tiered storage, if there is one.
    :ivar log: the faults so far.
    :ivar flips: the bits that flipped.
    """

    def __init__(
        self,
        world: World,
        nodes: Mapping[int, BrokerNode],
        clients: Sequence[str],
        trace: Callable[[str], None],
        operator: ClusterOperator,
        losses: Sequence[DurabilityOracle] = (),
        transactions: TransactionsWorkload | None = None,
        application: Supervisor | None = None,
        tiered: TieredWorkload | None = None,
    ) -> None:
        self.log = log = FaultLog(world.clock, trace)
        self.flips = BitFlips(losses)
        self._nodes = nodes
        brokers = BrokerFaults(nodes, world.clock, log)
        network = NetworkFaults(world.network, nodes.keys(), clients, log)
        store = StoreFaults(nodes, world.ensemble, log)
        self._faults: list[object] = [
            brokers,
            DiskFaults(brokers, losses, self.flips, log),
            network,
            store,
            LeaderFaults(brokers, network, store, world.clock, log),
            OperatorFaults(operator, log),
        ]
        if world.worker_store is not None:
            self._faults.append(WorkerFaults(world, nodes, world.worker_store, operator, log))
        if transactions is not None:
            self._faults.append(TransactionFaults(brokers, transactions))
        if tiered is not None:
            self._faults.append(RemoteFaults(tiered.objects, brokers, tiered, log))
        if application is not None:
            self._faults.append(ApplicationFaults(application, network, log))

    def do(self, fault: Fault) -> None:
        """Inject a fault now, by the method of its name."""
        self.log.tell(f"{fault.kind} {fault.args}")
        name = fault.kind.replace("-", "_")
        inject: Callable[..., bool | None] = next(getattr(each, name) for each in self._faults if hasattr(each, name))
        arguments = {("source" if name == "from" else name): value for name, value in fault.args.items()}
        effect = inject(**arguments)
        if effect is not None:
            self.log.count(fault.kind, effect)

    def mend_all(self) -> None:
        """End all faults, and start all brokers that are down."""
        self.log.end_all()
        for node in self._nodes.values():
            node.clock_offset = 0.0
            if node.up and not node.disk.crashed:
                node.disk.crash_at = None
            node.thaw()
            if node.up and node.disk.failure is not None:
                node.kill()
            node.start_again()
