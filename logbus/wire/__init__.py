"""
The Kafka protocol without sockets: bytes to messages, and messages to bytes. Pure.

* ``frame_buffer``: splits a stream into frames
* ``buffer_pool``: the memory of large frames
* ``connection``: ServerConnection and ClientConnection: frames to requests and responses
* ``headers``: request and response headers
* ``schema``: the public interface of messages: declare, encode, decode
* ``declaration``, ``version_range``, ``wire_types``: declarations of messages, version ranges, primitive types
* ``message_class``: makes the class of a message
* ``message_release``: frees messages of very many elements in steps
* ``layout``: a declaration in one version
* ``decoder_codegen``, ``encoder_codegen``, ``codegen``: compile functions from layouts
* ``decoder_runtime``, ``encoder_runtime``, ``encode_diagnosis``: helpers and errors of these functions
* ``error_codes``: finds the error codes in responses
* ``element_budget``: bounds the array elements of a message
* ``request_template``, ``produce_response``: the fast path of Produce
* ``fetch_template``: the fast path of Fetch
* ``throttle_time``: sets the throttle time of responses
* ``kafka_releases``: API versions, API names and features of Kafka's releases
* ``negotiation``: the versions that a client uses with a broker
* ``member_metadata``: subscriptions and assignments of consumers
* :mod:`~logbus.wire.messages`: the messages, one class for all versions

A frame goes ``frame_buffer`` → ``connection`` (``headers``, then the compiled decoder of ``messages``) → ``Request``; a
response goes through the compiled encoder, and becomes bytes and slices of files.
"""
