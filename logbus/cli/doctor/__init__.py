"""
What ``logbus doctor`` says: what to mend on a machine, in a configuration and in a cluster, and what happens otherwise.

* ``finding``: something to mend
* ``machine``: finds what to improve on this machine and in its directories
* ``configuration``: finds what to improve in a configuration
* ``cluster``: finds what is wrong with a cluster, as reported over HTTP
"""
