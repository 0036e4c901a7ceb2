"""
The metadata store: a tree of versioned nodes with watches and sessions, as in ZooKeeper.

* ``imetastore``: the interface of all stores.
* ``operations``: operations, results, events and errors. Pure.

The stores:

* ``zookeeper_store``: of a cluster, in ZooKeeper.
* ``zookeeper_security``: a client's login to ZooKeeper.
* ``secret_paths``: which nodes strangers may not read. Pure.
* ``request_queue``: the requests of its session, in order.
* ``kazoo_session``: a session with ZooKeeper, through kazoo.
* ``kazoo_handler``: the thread of its connection, and the connections that kazoo makes.
* ``kazoo_results``: translates kazoo's results.
* ``embedded_store``: of one machine, in one SQLite file.
* ``store_server``: serves that to other processes of the machine.
* ``local_store``: the client of such a server, in a worker.
* ``store_codec``: their frames. Pure.
* ``socket_path``: their socket, however long its path is.
* ``database``: that file.
* ``memory_store``: for tests and the simulation.
* ``base_store``: base classes of the stores.
* ``tree``: the tree in memory. Pure.
* ``pipelined_reads``: reads many nodes at once.
* ``watches``: the watches of one session.

Their content:

* ``znodes``: paths of all nodes; brokers, topics and configs. Pure.
* ``cluster_znodes``: nodes of the cluster as a whole. Pure.
* ``security_znodes``: nodes of users, quotas, ACLs and delegation tokens. Pure.
* ``sanitizer``: names as elements of paths. Pure.
* ``znode_json``: the JSON of nodes. Pure.
* ``acl_migration``: protects the nodes of a cluster that was open, or the reverse.
* ``connect_string``: ``zookeeper.connect``. Pure.
* ``metadata_file``: the file format of ``logbus metadata export``. Pure.
* ``metadata_copy``: copies the metadata from one store to another.

A write goes ``base_store`` → ``zookeeper_store`` → ``kazoo_session`` → ZooKeeper, or ``base_store`` →
``embedded_store`` → ``tree`` and ``database``. Answers and watches come back in order, on the reactor thread.
"""
