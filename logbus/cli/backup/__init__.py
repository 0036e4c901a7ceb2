"""
Backups of a broker and its workers, and what is restored from them.

A backup is a directory. Each of the broker's log directories is a directory in it, in which a broker could be started
as after a crash: ``broker-0/0`` is the first log directory of broker 0. ``metadata.json`` has the cluster's metadata.
``backup.json`` says what there is, and is written last: without it a backup is none.

* ``backup_format``: ``backup.json``, and the manifests of log directories
* ``backup_source``: the broker and its workers, asked for snapshots over HTTP
* ``file_copy``: copies files, or links them to an earlier backup's
* ``snapshot_copy``: copies the snapshots of brokers into a backup
* ``restore``: makes log directories of a backup
"""
