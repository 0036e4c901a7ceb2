"""
Security: who somebody is, and what they may do.

* ``tls``: keys, certificates, and the users that certificates name
* ``sasl``: authentication by SASL: the mechanisms, and the state of a connection that logs in
* ``acl``: ACLs and the authorizer
* ``client_security``: the protection of a client's connections
* ``delegation_tokens``: the secrets of delegation tokens
* ``audit``: the log of denials and privileged operations
* ``broker_challenge``: the proofs by which brokers convince each other that they are brokers
"""
