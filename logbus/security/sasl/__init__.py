"""
SASL: the mechanisms, of servers and clients, and the state of a connection that logs in. Nothing here does I/O.

* ``mechanism``: the interface of a server's mechanism, and its errors
* ``plain``: PLAIN (RFC 4616)
* ``scram_credential``: the server's credential of a user for SCRAM
* ``scram_syntax``: the messages of SCRAM (RFC 5802)
* ``scram_server``: the server's side of SCRAM
* ``scram_client``: the client's side of SCRAM
* ``broker_credentials``: the credentials by which this broker logs in to others
* ``client_login``: a client's mechanism and credentials
* ``oauthbearer``: OAUTHBEARER (RFC 7628)
* ``jwt_validator``: checks JSON web tokens (Kafka: BrokerJwtValidator)
* ``jaas``: the lines of ``sasl.jaas.config``
* ``sasl_config``: the keys ``sasl.*`` of one listener
* ``sasl_session``: a connection's login, from the handshake to re-authentication (Kafka: SaslServerAuthenticator)
"""
