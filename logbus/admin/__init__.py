"""
The admin listener: metrics, health and a REST interface over HTTP.

* :mod:`~logbus.admin.site`: the listener's factory; imports the rest when the first connection comes.
* :mod:`~logbus.admin.channel`, :mod:`~logbus.admin.request`, :mod:`~logbus.admin.response_stream`: the Twisted shell:
  one connection with its limits and timers, one request, one answer that is made while it is sent.
* :mod:`~logbus.admin.request_guard`: who may not ask at all: foreign hosts, foreign origins, bodies that are not JSON.
* :mod:`~logbus.admin.routing`: the table of routes, from a request to the method that answers it.
* :mod:`~logbus.admin.cluster`, :mod:`~logbus.admin.configs`, :mod:`~logbus.admin.probes`: those methods.
* :mod:`~logbus.admin.cluster_health`: what the cluster lacks, and whether a broker can be missed.
* :mod:`~logbus.admin.groups`, :mod:`~logbus.admin.group_members`, :mod:`~logbus.admin.group_lags`: groups, as views
  and metrics;
  :mod:`~logbus.admin.json_chunks`: long lists, a few rows at a time.
* :mod:`~logbus.admin.openapi`: the same table as an OpenAPI document.
* :mod:`~logbus.admin.strict_json`, :mod:`~logbus.admin.json_schema`: what JSON is accepted, and what shape it must
  have.
* :mod:`~logbus.admin.problem_details`: errors as clients see them (RFC 9457).
* :mod:`~logbus.admin.metrics_view`, :mod:`~logbus.admin.partition_metrics`, :mod:`~logbus.admin.replication_metrics`:
  the registry of metrics as Prometheus reads it.

A request runs: channel → gate → routing → a view over what the broker knows now → channel.
"""
