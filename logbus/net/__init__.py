"""
The Twisted shell of :mod:`logbus.wire`: sockets, time, and limits.

=================================== ====================================================================
:mod:`~logbus.net.listening_reactor`         our transport under endpoint strings
:mod:`~logbus.net.tls`              the deadline of TLS handshakes
:mod:`~logbus.net.transport`        receives in place, sends from the read callback, ``sendfile``
:mod:`~logbus.net.reactor`          Twisted's epoll reactor, with a shorter way to our transport
:mod:`~logbus.net.sendfile`         what is to be sent: on a socket, or through any other transport
:mod:`~logbus.net.itransport`         what the transport and the connection know of each other
:mod:`~logbus.net.factory`         the connections of one listener: admission, sweep, drain
:mod:`~logbus.net.protocol`          one connection: requests to the router, answers in order
:mod:`~logbus.net.response_order`          answers that wait for one before them
:mod:`~logbus.net.request_context`          who asks
:mod:`~logbus.net.request_budget`           memory for large requests, shared by all connections
:mod:`~logbus.net.connection_limits`           what a peer may do
:mod:`~logbus.net.metrics`          what is counted
:mod:`~logbus.net.channel`          one connection to another broker
=================================== ====================================================================

A request's way: socket → transport → frame buffer → serving → ``wire.connection`` → router → answer → transport.
"""
