"""
A whole cluster in one process and on one virtual clock, with everything that can go wrong in it, from one seed.

Brokers are the real composition (:class:`logbus.broker.Broker`); only what they are given is ours: the reactor
(:mod:`.reactor`), the network (:mod:`.network`), the disks (:mod:`.disk`), the metadata store (:mod:`.store`), the wall
clock and the randomness. :mod:`.run` puts it together: clients that write and read (:mod:`.records`), or do so in
transactions (:mod:`.transactions`), faults by a schedule (:mod:`.schedule`, :mod:`.nemesis`), and then the question
whether what clients saw was right (:mod:`.history`, :mod:`.ledger`, :mod:`.inspection`).

The same seed gives the same run. A seed that fails is reduced to the few faults that it takes (:mod:`.shrink`).
"""
