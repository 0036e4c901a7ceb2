"""
``logbus test-server``: a broker or a cluster for the tests of programs in any language.

The server writes its addresses to a file, is controlled over HTTP, and ends with its parent.

* ``run``: the process: start, signals, orderly end
* ``options``: the options of the command line
* ``port_file``: the JSON file with the addresses
* ``parent_watch``: notices the end of the parent process
* ``brokers_under_test``: the broker or the cluster, as the HTTP interface controls it
* ``worker_thread``: runs what blocks, one thing after the other
* ``control_site``: the HTTP listener, and who may use it
* ``control_views``: the table of its routes
* ``server_routes``: routes of the whole server
* ``broker_routes``: routes of single brokers
* ``topic_routes``: routes of topics
* ``state_routes``: routes of snapshots, time and disks
* ``trouble_routes``: routes of cut links, leaders, sessions, groups, transactions
* ``brokers_in_trouble``: the actions of these routes on the brokers under test
* ``fault_routes``: routes of faults, and of the requests that brokers got
"""
