"""
TLS: the contexts of listeners, and the principals of clients' certificates (Kafka: SslFactory, SslPrincipalMapper).

* ``tls_settings``: the keys ``ssl.*`` of one listener
* ``key_store``: keys and certificates from PEM and PKCS12 (Kafka: DefaultSslEngineFactory)
* ``certificate_checks``: checks that others can use the certificates of a listener
* ``cipher_suites``: the forward-secret cipher suites, by their names
* ``tls_context``: OpenSSL contexts from settings
* ``tls_errors``: words for errors of TLS, the same at both ends
* ``zookeeper_tls``: contexts of connections to ZooKeeper
* ``client_tls``: the TLS of a client
* ``listener_tls``: the current context of a listener, which can be reloaded
* ``distinguished_name``: the names of certificates' subjects, written as by Kafka
* ``ssl_principal_mapper``: rules from names to users (KIP-371)
"""
