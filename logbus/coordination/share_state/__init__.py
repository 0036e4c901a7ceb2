"""
The share coordinator (KIP-932): which records of a share partition were delivered how often, and are done.

A share partition is one partition of a topic as one share group reads it. Its leader keeps what happens to its records
in memory, and has the share coordinator write it down, so that the next leader goes on from there.

* ``share_state``: the state of a share partition, as a value (pure)
* ``persister``: reads and writes the states at their coordinator, on whichever broker that is
"""
