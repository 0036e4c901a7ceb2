"""
Quotas: how much of a broker users and clients may take (Kafka: ClientQuotaManager).

* ``quota_table``: the quota of a user and client id, by Kafka's precedence
* ``leaky_bucket``: a client's use that it has not waited for yet
* ``connection_rates``: limits how many connections addresses and listeners make a second
* ``controller_mutation_quota``: limits how many partitions requests create and delete
* ``client_quota_manager``: measures clients, and says how long those over their quota must wait
* ``quota_managers``: the managers of all kinds of quotas
"""
