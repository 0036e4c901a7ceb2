"""
Several brokers on one machine that are started, watched and stopped as one: ``--workers N``.

* ``worker_plan``: the plan of each worker: its number, directories, ports.
* ``left_over``: finds partitions of workers that will not run.
* ``earlier_workers``: waits for those of a supervisor that was killed.
* ``supervisor``: starts, watches and restarts the workers, and has their metadata store.
* ``restart_backoff``: when to start a worker, or the fork server, again.
* ``worker_link``: the messages between the supervisor and a worker.
* ``worker_metrics``: the metrics of all workers as those of the machine.
* ``worker_scrapes``: in a worker: asks for the metrics of the others when it is scraped, and sends its own.
* ``collection``: in the supervisor: passes the metrics of the other workers on to the one that is scraped.
* ``fork_server``: a process that has imported everything, and becomes workers by forking.
* ``fork_client``: in the supervisor: starts the fork server, and has it fork.
* ``worker``: a worker's process.
* ``port_reservation``: holds ports while no worker listens.

The supervisor (twistd's process) starts the fork server; that becomes a worker for each plan; the worker runs an
ordinary :class:`~logbus.broker.Broker`, whose metadata store is ZooKeeper or the supervisor's, behind a socket.
"""
