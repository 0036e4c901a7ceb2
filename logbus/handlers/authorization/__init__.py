"""
The rights that each API needs: guards before the handlers ask the authorizer (Kafka: AuthHelper, and KafkaApis).

* ``access``: the rights of the principal of one request; the audit log.
* ``guard``: guards, how they are found, and how they wrap handlers.
* ``named_topics``: guards of requests whose elements are topics.
* ``topic_guards``: of topics, their metadata and their records.
* ``modern_group_guards``: what those of consumer, share and streams groups have in common.
* ``group_guards``: of groups and their offsets.
* ``share_group_guards``: of share groups.
* ``streams_group_guards``: of streams groups.
* ``transaction_guards``: of producers and transactions.
* ``share_state_guards``: of the states of share partitions.
* ``config_guards``: of settings.
* ``token_guards``: of delegation tokens.
* ``cluster_guards``: of what concerns the whole cluster, and of requests between brokers.

A guard takes elements that are refused out of a request, has the rest served, and adds the refused to the response.
Produce and Fetch ask for themselves, as the hot path and sessions demand.
"""
