"""
The web console at the admin listener's ``/``: pages made on the server, which work without JavaScript.

A request passes from the admin listener to console_site, which finds the page. A page asks api_client for the answers
of the HTTP API's views, which run in this process with the rights of the signed-in user, and makes elements of them;
layout puts these into the frame. Forms come back through form_body and change, which asks once before a change.

* ``console_site``: finds and sends pages; composes the rest
* ``api_client``: asks the views of the HTTP API
* ``form_body``: reads posted forms and queries
* ``change``: a change to confirm: its command, request and consequences
* ``page``: the visit, the page that is made for it, and its errors
* ``layout``: the frame: head, navigation, foot
* ``form_page``: a page with one form
* ``live_parts``: sends an open page what changes, by server-sent events
* ``elements``: tables, lists, badges, messages and fields
* ``figures``: numbers, sizes and times as text (pure)
* ``plot``: time series as SVG
* ``broker_answers``: asks several brokers at the same time
* ``cluster_history``: the last hour of all brokers
* ``record_query``: the query in the record browser's form (pure)
* ``record_input``: keys and values as people type them (pure)
* ``record_content``: keys and values as people read them (pure)
* ``value_schemas``: schemas of keys and values, from the registry
* ``schema_text``: schemas with indentation, and what differs between two of them (pure)
* ``static_files``: the style sheet and the scripts

Pages:

* ``overview``: the cluster, its faults, its disks and the last hour
* ``topic_list_page``: topics, with what the brokers have of them
* ``topic_pages``: one topic: its partitions and readers
* ``topic_change_pages``: create and delete topics, and add partitions
* ``record_pages``: records of a topic: browse and search
* ``record_download``: the same as lines of JSON, read while they are sent
* ``record_tail_page``: follow the end of a topic
* ``record_produce_page``: produce a record
* ``config_pages``: settings of topics and brokers; change them
* ``broker_pages``: brokers
* ``group_pages``: groups, their members and lag
* ``group_change_pages``: reset the offsets of a group, with a preview; delete offsets of a topic, or a group
* ``transaction_pages``: transactions that hang, transactional ids, the longest transaction first; abort one
* ``mirror_pages``: mirrors that brokers run: how far each has copied what
* ``access_page``: users' rights and quotas
* ``acl_pages``: ACLs; create and delete them
* ``user_pages``: users that log in by SCRAM; set a password, delete a user
* ``quota_pages``: quotas of users, client ids and addresses; change them
* ``partition_pages``: a partition's replicas; elect its leader, move it, delete its oldest records
* ``logger_pages``: a broker's loggers; change levels
* ``schema_pages``: subjects of the schema registry, their versions, and what differs between two
* ``schema_change_pages``: check and register a schema; change the compatibility level; delete a subject or a version
* ``link_pages``: links to the API, metrics and probes; keyboard shortcuts; sign-in
"""
