"""
Quotas: how much of a broker users and clients may take (Kafka: ClientQuotaManager).

* ``measured_rate``: a rate over a few windows of time
* ``quota_table``: the quota of a user and client id, by Kafka's precedence
* ``client_quota_manager``: measures clients, and says how long those over their quota must wait
"""
