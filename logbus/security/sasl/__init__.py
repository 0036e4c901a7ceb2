"""
SASL: the mechanisms, of servers and clients, and the state of a connection that logs in. Nothing here does I/O.

* ``mechanism``: the interface of a server's mechanism, and its errors
* ``plain``: PLAIN (RFC 4616)
* ``scram_credential``: what the server knows of a user's password
* ``scram_syntax``: the messages of SCRAM (RFC 5802)
* ``scram_server``: the server's side of SCRAM
* ``scram_client``: the client's side of SCRAM
* ``broker_credentials``: how this broker logs in to others
* ``client_login``: what a client logs in with
* ``oauthbearer``: OAUTHBEARER (RFC 7628)
* ``jwt_validator``: checks JSON web tokens (Kafka: BrokerJwtValidator)
* ``jaas``: the lines of ``sasl.jaas.config``
* ``sasl_config``: the keys ``sasl.*`` of one listener
* ``sasl_session``: a connection's login, from the handshake to re-authentication (Kafka: SaslServerAuthenticator)
"""
