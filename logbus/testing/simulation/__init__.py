"""
Simulates whole clusters with faults, in one process and on virtual time, from a seed.

Brokers are the real :class:`logbus.broker.Broker`. Only their environment is simulated: the reactor, the network, the
disks, the metadata store, the wall clock and the randomness. The same seed gives the same run.

* ``run``: one run: a cluster, clients and faults, then the checks.
* ``series``: runs over many seeds.
* ``totals``: the numbers of a run, and their sums.
* ``settings``: of a run.
* ``schedule``: faults and their times, drawn from the seed. Pure.
* ``shrink``: reduces a failing schedule to the few faults that it needs. Pure.
* ``nemesis``: injects the faults of a schedule.
* ``bitflips``: flips bits of records on disks.

Packages:

* ``faults``: the faults, by what they hit.
* ``environment``: virtual time, network, disks, metadata store, and the machines of brokers and clients.
* ``workloads``: the clients.
* ``checks``: whether clients saw what they must, and brokers hold the same.

``run`` starts the brokers, a workload and the ``nemesis``; when all faults have ended it has ``checks`` compare the
histories of the workload with each other and with the brokers' logs.
"""
