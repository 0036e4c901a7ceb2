"""
The commands of ``logbus``, a module each; :mod:`logbus.cli.app` imports a module when its command runs.

* ``topics``, ``produce``, ``consume``, ``configs``, ``log_dirs``: the commands of these names
* ``groups``: list, describe, delete groups; ``groups_offsets``: reset, delete, export, import their offsets
* ``transactions``: list, describe, find hanging ones; ``transactions_abort``: abort and force-terminate
* ``cluster``: the group ``cluster``, and describe
* ``cluster_start``, ``cluster_reassign``, ``cluster_elect_leaders``, ``cluster_shutdown_broker``: its other commands
* ``metadata``: export and import metadata
* ``dump_log``: print the files of a log
* ``audit``: compare published with consumed counts
* ``bench``: measure a broker
* ``simulate``: run simulated clusters
* ``pipeline``: the group ``pipeline``, and script
* ``pipeline_load``, ``pipeline_compact``, ``pipeline_windows``, ``pipeline_join``, ``pipeline_audit``,
  ``pipeline_mirror_check``: jobs on Spark
"""
