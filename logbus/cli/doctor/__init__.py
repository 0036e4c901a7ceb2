"""
What ``logbus doctor`` says: what to mend on a machine, in a configuration and in a cluster, and what happens otherwise.

* ``finding``: something to mend
* ``machine``: facts about this machine and its directories, and what to say of them
* ``configuration``: what to say of a configuration
* ``cluster``: what a cluster says of itself over HTTP
"""
