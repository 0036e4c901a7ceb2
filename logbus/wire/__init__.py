"""
The Kafka protocol, without sockets: bytes in, messages out, and back.

Bytes come in frames (:mod:`~logbus.wire.frame_buffer`); a connection (:mod:`~logbus.wire.connection`) makes requests
and responses of them, with headers (:mod:`~logbus.wire.headers`) before the bodies. The bodies are declared in
:mod:`~logbus.wire.messages`, one class for all versions, and spelt and read by functions that
:mod:`~logbus.wire.schema` compiles from the declarations. What a release of Kafka serves is in
:mod:`~logbus.wire.kafka_releases`.
"""
