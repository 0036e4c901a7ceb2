"""
The admin listener: metrics, health probes and a REST interface over HTTP.

A request passes through channel, request, request_guard, authentication and routing to a view, which answers from the
broker's current state; the answer returns through request and channel, long ones in chunks through response_stream.

The HTTP server:

* ``site``: the listener's factory; imports the rest with the first connection
* ``channel``: connections, with limits and timeouts
* ``connection_slots``: limits and evicts connections
* ``http_limits``: the limits
* ``address_share``: which addresses count as one client
* ``request``: a request, passed to the router or a plugin's resource
* ``request_guard``: refuses foreign hosts, foreign origins and bodies that are not JSON
* ``authentication``: finds the principal of a request
* ``authorization_header``: reads passwords and tokens
* ``verified_passwords``: remembers right passwords for a short time
* ``authorization``: the rights of the principal
* ``routes``: all routes, made with the first request
* ``routing``: the table of routes
* ``schema_registry``: the console's access to the schema registry
* ``relay``: passes requests on to the brokers that serve them, and merges lists of all brokers
* ``pages``: the interface of pages for browsers
* ``response_stream``: sends an answer while it is made
* ``event_stream``: streams of events
* ``event_log``: the last events of the cluster
* ``json_chunks``: long lists in chunks
* ``pagination``: lists in pages
* ``problem_details``: errors (RFC 9457)
* ``entity_tags``: ETag and If-Match
* ``change_terms``: changes that are only checked, or only made if nobody else was faster
* ``strict_json``: strict JSON
* ``json_schema``: the JSON Schemas of bodies
* ``openapi``: the table of routes as an OpenAPI document

Records:

* ``kafka_requests``: serves Kafka requests for clients of HTTP
* ``record_reader``: reads pages of records
* ``record_scan``: goes through fetched batches
* ``record_search``: searches a topic, a part with each request
* ``record_writer``: writes records to the leaders of their partitions
* ``record_tail``: follows partitions
* ``record_json``: records in JSON

Views:

* ``probes``: ``/healthz``, ``/readyz``
* ``metrics_view``: ``/metrics``
* ``cluster``: the cluster and its brokers
* ``cluster_health``: faulty partitions, shutdown of the broker
* ``broker_history``: the last hour of a broker
* ``metric_history``: keeps it
* ``conditions``: the conditions of the brokers
* ``condition_watch``: tells which of these begin and end
* ``cluster_events``: the stream of changes in the cluster
* ``topics``: topics
* ``partitions``: partitions, with replicas of a broker
* ``usage``: replicas of a broker, and records and bytes that it has of topics
* ``topic_groups``: the groups that read a topic
* ``configs``: configuration of topics and brokers
* ``loggers``: levels of loggers
* ``partition_changes``: more partitions, fewer records, other leaders and replicas
* ``snapshots``: snapshots of brokers' files, for backups
* ``log_dirs``: log directories of brokers
* ``acls``: ACLs
* ``quotas``: quotas of users, client ids and addresses
* ``users``: users that log in by SCRAM
* ``records``: records: read, search, produce
* ``groups``: groups
* ``group_changes``: changes of groups: reset and delete offsets, delete a group
* ``group_members``: members of groups as JSON
* ``transactions``: transactional ids
* ``hanging_transactions``: transactions that no coordinator ends
* ``mirrors``: mirrors that brokers run
"""
