"""
Control of a test's brokers beyond what clients can ask for, wherever they run: faults, time, full disks, rebalances.

A broker in the test's process is given it; one in a process of its own (or each worker of it) connects to the test,
whose settings it follows, and which it tells of the requests it gets.

* ``broker_controls``: the parts of a broker that a test controls
* ``channel_lines``: the messages over the connection: JSON objects, one a line
* ``control_channel``: the test's end
* ``told_history``: the requests and hits of a broker that tells the test of them
* ``controlled_process``: the broker's end, and its program
* ``controlled_fork_server``: the same for workers
"""
