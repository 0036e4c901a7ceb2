"""
The commands of ``logbus``, a module each; :mod:`logbus.cli.app` imports a module when its command runs.

* ``start``: run a broker
* ``topics``, ``produce``, ``consume``, ``configs``, ``log_dirs``: the commands of these names
* ``topics_files``: write topics to files and files to topics
* ``groups``: the group ``groups``; list, describe, delete
* ``groups_offsets``: reset, delete, export and import offsets of groups
* ``transactions``: the group ``transactions``; list, describe, find hanging ones
* ``transactions_abort``: abort and force-terminate transactions
* ``users``: users that log in by SCRAM
* ``acls``: access control lists
* ``quotas``: quotas of users, client ids and addresses
* ``tokens``: delegation tokens
* ``cluster``: the group ``cluster``; describe
* ``cluster_start``: run a cluster on this machine
* ``cluster_reassign``: move replicas
* ``cluster_rebalance``: spread partitions over the workers of machines
* ``cluster_rolling_restart``: restart brokers one after the other
* ``cluster_elect_leaders``: elect preferred or unclean leaders
* ``cluster_shutdown_broker``: stop a broker in order
* ``metadata``: export and import metadata
* ``dump_log``: print the files of a log
* ``doctor``: ``logbus doctor``
* ``verify``: check the files of a log directory
* ``backup``: copies the data of a broker while it runs
* ``restore``: makes a data directory of a backup
* ``mirror``: copy topics of one cluster to another
* ``audit``: compare published with consumed counts
* ``audit_mirror``: compare topics with their copies
* ``bench``: measure a broker
* ``test_server``: run brokers for tests
* ``simulate``: run simulated clusters
* ``kafka_scripts``: write scripts that take the options of Kafka's
* ``completion``: a shell's completion of commands and options
* ``pipeline``: the group ``pipeline``; script
* ``pipeline_load``, ``pipeline_compact``: load topics into a table, merge its files
* ``pipeline_windows``, ``pipeline_join``: aggregate by time windows, join
* ``pipeline_audit``, ``pipeline_mirror_check``: compare counts with tables, topics of two clusters
"""
