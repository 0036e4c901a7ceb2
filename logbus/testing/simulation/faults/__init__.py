"""
The faults of a run, by what they hit.

* ``fault_log``: the faults so far, their effects, and their ends.
* ``broker_faults``: brokers die, stand still and restart.
* ``disk_faults``: disks are slow, fail, lie, and lose data.
* ``network_faults``: links are cut and slow.
* ``store_faults``: the metadata store, sessions and clocks.
* ``worker_faults``: the supervisor of workers, and the disk of its metadata store.
* ``remote_faults``: the object store of tiered storage, and brokers that copy to it.
* ``leader_faults``: leaders are hit, again and again.
* ``operator_faults``: changes by operators meanwhile.
* ``transaction_faults``: coordinators and participants of transactions, and their clients.
* ``application_faults``: processes of an application.
"""
