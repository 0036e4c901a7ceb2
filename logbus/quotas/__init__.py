"""
Quotas: how much of a broker users and clients may take (Kafka: ClientQuotaManager).

* ``quota_table``: the quota of a user and client id, by Kafka's precedence
* ``leaky_bucket``: what a client took, and has not paid for by waiting
* ``connection_rates``: how many connections addresses and listeners may make a second
* ``controller_mutation_quota``: how many partitions one request may create and delete
* ``client_quota_manager``: measures clients, and says how long those over their quota must wait
* ``quota_managers``: the managers of all kinds of quotas
"""
