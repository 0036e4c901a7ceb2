"""
The pipeline's Spark jobs. Each is a function ``run``, and a command of ``logbus pipeline``.

For all jobs:

* ``job_control``: progress messages, and the request to stop
* ``broker_check``: checks topics and offsets before Spark is started
* ``sql_check``: finds mistakes in SQL expressions before Spark is started
* ``progress``: messages about the progress of Spark
* ``progress_bar``: a bar for terminals, with rates
* ``slow_workers``: repeats work for which Python processes started too slowly
* ``cancellation``: cancels Spark jobs upon the request to stop
* ``time_text``: timestamps as text

Load, from ``load_planner`` through ``batch_loader`` to a commit of the table:

* ``load``: the load job
* ``load_planner``: compares the brokers' offsets with the table's
* ``wanted_offsets``: the offsets that are missing in the table
* ``batch_loader``: writes one batch of a load

Windows and joins, from ``event_source`` through ``streaming_query`` to ``outputs``:

* ``windows``: the windows job
* ``joins``: the join job
* ``table_topic``: a compacted topic as a table, as a side of a join
* ``time_buckets``: buckets of time, so that a join compares events near each other only
* ``join_keys``: checks the types of a join's keys
* ``join_estimate``: estimates the rows of a join from samples
* ``event_stream``: a topic as a stream of events with a watermark
* ``event_source``: the data source of such streams
* ``punctuation``: rows that only advance a watermark
* ``streaming_query``: runs a query with a checkpoint
* ``query_definition``: the definition of a query: its computation and its settings
* ``query_checkpoint``: whose a checkpoint is, and whether its last run failed
* ``checkpoint_files``: checks Spark's files in a checkpoint
* ``checksum_files``: the checksums of local files
* ``full_disk``: finds the disks without room, where Spark's error does not say it
* ``state_damage``: explains failures because of a damaged state
* ``query_starts``: starts a query on Spark, and waits for its end
* ``query_report``: the report of a run, to which each batch is added
* ``backlog``: decides whether a backlog is read with a held watermark
* ``outputs``: topics and tables that batches are written to
* ``durations``: durations such as ``10 minutes``
* ``late_events``: counts late events, and limits their share
* ``late_watermark``: Spark's watermark in a file, by which late events are found
* ``open_state``: reads open windows and waiting events from a checkpoint
* ``record_counts``: checks whether the counts of a run add up

Audit, from monitoring events and tables to a report:

* ``audit``: the audit job
* ``audit_event_reader``: decodes monitoring events
* ``audit_event_sums``: sums up monitoring events on Spark
* ``audit_limits``: the limits on unreadable events and duplicates
* ``audit_tables``: counts the records of tables
* ``audit_page``: the report as an HTML page
* ``audit_plot``: the plots on it

Mirror:

* ``mirror``: the mirror job
* ``mirror_record_counts``: hashes the records of two clusters, and counts them
"""
