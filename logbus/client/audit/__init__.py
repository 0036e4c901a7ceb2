"""
Counts of the records that applications publish and consume, and their comparison.

* ``monitoring_event``: MonitoringEvent: counts of a window, in JSON and Avro; pure
* ``audit_interceptor``: AuditInterceptor: counts records and publishes events to the audit topic
* ``event_decoder``: EventDecoder: decodes events in JSON or Avro
* ``audit_topic``: reads the audit topic to its end
* ``audit_comparison``: AuditTotals, AuditComparison: sums up events and compares applications; pure

An interceptor counts records and publishes events; ``audit_topic`` reads and decodes them, and ``audit_comparison``
compares.
"""
