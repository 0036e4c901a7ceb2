"""
Connections: sockets, time and limits around :mod:`logbus.wire`, on Twisted (Kafka: SocketServer, NetworkClient).

Servers:

* ``listening_reactor``: makes endpoint strings listen with our transport
* ``factory``: KafkaServerFactory: the connections of one listener: admission, sweep, drain
* ``protocol``: KafkaServerProtocol: one connection, from its parts
* ``request_dispatcher``: frames to requests, requests to the router
* ``request_routing``: the signatures of routers, and the routers that the connections of one listener share
* ``sasl_login``: the login of a connection by SASL
* ``login_limits``: the limits of a client that has not logged in
* ``jwt_keys``: the keys of a token issuer
* ``produce_gatherer``: small Produce requests of several connections, served together
* ``pending_responses``: requests that wait for their answers
* ``response_order``: responses that wait for earlier ones
* ``response_sender``: sends small responses together, and counts what is unsent
* ``flow_control``: when a connection serves requests, and when it receives
* ``client_throttle``: mutes the connections of clients over their quotas
* ``frame_memory``: the memory of a connection's frame buffer
* ``connection_deadlines``: finds peers that are idle, or slow to complete a frame
* ``transport``: receives in place, sends from the read callback, ``sendfile``
* ``itransport``: the interface between transport and protocol
* ``sendfile``: send queues of bytes and slices of files, for sockets
* ``stream_transport``: sends these over TLS and UNIX sockets
* ``response_batch``: small responses of many connections sent by one system call, if that is compiled
* ``native_sends``: large responses sent in threads that know no Python, if they are compiled
* ``native_fetches``: the next fetches of a consumer that reads on, answered in such threads
* ``prepared_fetches``: what those threads are given, by the handler
* ``fetch_handover``: hands a connection over to such a thread, and takes it back
* ``cold_reads``: waits for cold data before it is sent
* ``tls``: TLS with a deadline for the handshake
* ``channel_binding``: identifies a TLS connection to both of its ends
* ``reactor_choice``: chooses the reactor of a process, and hands it out
* ``without_tls``: imports Twisted's TCP without OpenSSL
* ``reactor``: an epoll reactor that calls our transport directly
* ``busy_poll``: polls before the reactor sleeps, where the next request is expected at once
* ``turn_times``: the times that the reactor's turns take
* ``reactor_ticks``: the delay of its timers
* ``standstills``: notices that the process stood still
* ``read_turn``: work that connections readable at once leave to be done together
* ``request_context``: the peer of a request
* ``shared_resources``: the resources that the connections of all listeners share
* ``request_budget``: memory of requests, over all connections
* ``large_requests``: large requests take turns with the small ones of others
* ``request_times``: the times that requests take, by API and phase
* ``request_errors``: counts errors by API and code
* ``memory_holder``: the interface between a connection's memory and the budget
* ``memory_overdraft``: memory beyond the total, for frames that lack little
* ``slow_frames``: finds frames that make hardly any progress
* ``connection_limits``: limits and counts of connections
* ``arrivals``: the number of objects that clients create, and the clients that create most
* ``time_slices``: slices of reactor time for large requests
* ``cancellation``: shields work from the end of its request
* ``garbage_collection``: delays garbage collection at the start, and while large requests are served
* ``metrics``: counters

Clients, and connections between brokers:

* ``channel``: Channel: requests to one broker
* ``sasl_client``: logs a channel in by SASL
* ``tls_client``: connections over TLS to others
* ``connect``: makes channels: connects, and negotiates API versions
* ``keepalive``: detects dead peers
* ``lost_connections``: tells of connections that are lost
* ``receive_buffer``: the size of the kernel's receive buffer

A request goes socket → ``transport`` → frame buffer → ``protocol`` → ``request_dispatcher`` →
:mod:`logbus.wire.connection` → router → response → ``response_sender`` → ``transport``.
"""
