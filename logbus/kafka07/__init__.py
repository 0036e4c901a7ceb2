"""
The byte-addressed protocol of Kafka 0.7, as a protocol plugin, for clients that nobody can change any more.

* ``plugin``: the plugin: ``--listen kafka07:tcp:…``
* ``factory``: KafkaSevenFactory: the connections of a listener, and their limits
* ``protocol``: KafkaSevenProtocol: one connection; answers its requests one after the other
* ``service``: answers requests by the broker's services
* ``virtual_log``: VirtualLog: a partition's records as the messages of a 0.7 log, by byte positions
* ``virtual_logs``: opens and closes those of a broker's partitions
* ``requests``: decodes requests
* ``responses``: encodes responses; 0.7's error codes
* ``message_sets``: messages of magic 0 and 1, and compressed sets of them
* ``position_index``: the index between byte positions and offsets

A produced set goes ``requests`` → ``message_sets`` → ``service`` → :meth:`.IBroker.append`. A fetch from a byte
position goes ``virtual_log`` → ``position_index`` → :meth:`.IBroker.fetch` → ``message_sets``.
"""
