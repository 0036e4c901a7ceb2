"""
The admin client (Kafka: AdminClient).

* ``admin_client``: AdminClient: topics, records to delete, the cluster; inherits the parts below
* ``config_admin``: settings of topics, brokers and groups
* ``group_admin``: consumer groups and their offsets
* ``transaction_admin``: transactions, producers, aborts
* ``replica_admin``: leader elections and reassignments
* ``user_admin``: users that log in by SCRAM
* ``token_admin``: delegation tokens
* ``acl_admin``: ACLs
* ``quota_admin``: quotas of users, client ids and addresses
* ``log_dir_admin``: log directories
* ``group_results``: the values in the answers about groups
* ``transaction_results``: the values in the answers about transactions and producers

Requests, imported at first use:

* ``group_requests``: of groups
* ``group_description``: descriptions of groups, of either protocol
* ``transaction_requests``: of transactions

A method of AdminClient builds a request, sends it to the controller, to leaders or to coordinators
(:mod:`logbus.client.cluster`), and returns a value or an error for each item.
"""
