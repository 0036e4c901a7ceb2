"""
The environment of simulated processes: virtual time, network, disks and metadata store.

* ``virtual_clock``: the queue of all events; time jumps from one to the next.
* ``node_reactor``: the reactor of one process, on that clock and network.
* ``network``: hosts, ports and connections (TCP in memory).
* ``network_links``: latency and cuts between two hosts.
* ``transport``: one connection, with its two ends.
* ``memory_disk``: a disk in memory that knows what was synced, and can fail.
* ``memory_file``: its open files, and writes behind their ends.
* ``timed_disk``: the same disk, with operations that take time.
* ``inodes``: its files and directories, and their state after a power cut.
* ``simulated_store``: the metadata store, with latency, lost connections and expired sessions.
* ``worker_store``: the store of workers, at their supervisor, behind connections.
* ``remote_objects``: the object store of tiered storage, which is slow, fails and is cut off.
* ``simulated_threads``: threads of a process that block for virtual time.
* ``broker_node``: a machine with a broker.
* ``simulated_cluster``: all brokers of a run.
* ``client_process``: a client process that can be killed.
* ``garbage_collector_watch``: tells log messages of dead processes.
"""
