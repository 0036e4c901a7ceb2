"""
Simulates users' applications: their own code, on virtual time, against a whole cluster with faults.

* ``simulated_application``: what is simulated: an application, its topics, its input and its checks.
* ``application_file``: finds one by ``MODULE:FUNCTION``.
* ``simulation``: what an application is given.
* ``cluster_tools``: the simulation's own client: writes, reads, creates topics.
* ``simulate``: many seeds, in tests.
* ``application_run``: one run.
* ``supervisor``: starts the application's processes, and starts them again.
* ``application_process``: one of them.

The world as an application sees it:

* ``event_loop``: an event loop of asyncio on the virtual clock.
* ``loop_connection``: its connections.
* ``application_reactor``: the reactor of an application on Twisted.
* ``virtual_modules``: time, randomness, threads and sockets of the standard library.
* ``refusals``: says what is not simulated, and where the application did it.
* ``run_context``: garbage, warnings and log records during a run.

An application is a function. Its process has an event loop and a reactor; both put what is to be called into the queue
of the clock that the brokers use, too. So all of a run is one thread in which nothing waits: time jumps to the next
event. A killed process is one whose events are dropped. Its coroutines stay in memory to the end of the run, as
they would run their ``finally`` blocks if they were collected before.
"""
