"""
Commands that take the options of Kafka's scripts and answer in their words: ``logbus kafka-scripts`` writes them.

Each is a module with a ``PARSER`` and a function ``run``, which gets the parsed options and returns the exit status:

* ``topic_command``: ``kafka-topics``
* ``console_producer``: ``kafka-console-producer``
* ``console_consumer``: ``kafka-console-consumer``
* ``consumer_group_command``: ``kafka-consumer-groups``
* ``config_command``: ``kafka-configs``
* ``acl_command``: ``kafka-acls``
* ``reassign_partitions_command``: ``kafka-reassign-partitions``
* ``get_offsets_command``: ``kafka-get-offsets``
* ``delete_records_command``: ``kafka-delete-records``
* ``leader_election_command``: ``kafka-leader-election``
* ``transactions_command``: ``kafka-transactions``
* ``log_dirs_command``: ``kafka-log-dirs``
* ``broker_api_versions_command``: ``kafka-broker-api-versions``
* ``dump_log_command``: ``kafka-dump-log``
* ``groups_command``: ``kafka-groups``
* ``cluster_command``: ``kafka-cluster``
* ``features_command``: ``kafka-features``
* ``delegation_token_command``: ``kafka-delegation-tokens``
* ``producer_performance_command``: ``kafka-producer-perf-test``
* ``consumer_performance_command``: ``kafka-consumer-perf-test``

Their parts:

* ``topic_description``: the lines of ``kafka-topics --describe``
* ``line_message_reader``: the record that a line of input stands for
* ``message_formatter``: the line that a record is printed as
* ``consumer_group_report``: the tables of ``kafka-consumer-groups``
* ``consumer_group_reset``: ``kafka-consumer-groups --reset-offsets``
* ``config_entities``: the entities and changes that options of ``kafka-configs`` name
* ``config_report``: the lines of ``kafka-configs --describe``

``python -m logbus.cli.kafka_scripts kafka-topics …`` runs a command by its script's name. What they share:

* ``scripts``: the table of commands; writes the scripts
* ``absent_scripts``: scripts that are not served, and what there is instead
* ``option_parser``: parses arguments as joptsimple does
* ``session``: connects to a cluster as the options say
* ``client_settings``: properties of Kafka's clients, and which of them had no effect
* ``topic_names``: chooses topics by regular expressions
* ``json_file``: the JSON files of partitions that options name
* ``java_errors``: errors by the names of their classes in Java
* ``console``: prints, and asks
"""
