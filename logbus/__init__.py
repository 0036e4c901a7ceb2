"""
logbus: a Kafka-compatible, replicated commit log on Twisted.

The layers of these packages, and the paths of data through them, are in ``docs/explanation/architecture.rst``.

Formats:

* ``records``: record batches
* ``wire``: the Kafka protocol, without sockets

A broker:

* ``net``: connections
* ``storage``: logs on disk
* ``metastore``: the metadata store, ZooKeeper or in memory
* ``cluster``: membership, metadata, the controller, replication
* ``share``: the partitions of share groups on their leaders
* ``coordination``: coordinators of groups and transactions
* ``handlers``: the handlers of the APIs
* ``registry``: the schema registry
* ``kafka07``: the byte-addressed protocol of Kafka 0.7
* ``console``: the web console
* ``admin``: the admin listener: metrics, health, REST
* ``broker``: the composition root, which builds these parts (a package)
* ``workers``: several brokers on a machine, run as one
* ``settings``: the packages' settings, from the configuration
* ``security``: authentication and authorization, without sockets
* ``quotas``: measures clients against their quotas, without sockets
* ``socket_server``: binds ports and accepts connections
* ``listener_config``: the listeners in the configuration
* ``protocols``: protocol plugins of listeners
* ``plugins``: finds installed plugins
* ``ilogbus``: the interfaces for plugins
* ``preflight``: the checks before a broker starts
* ``server_options``: the options of ``twistd logbus``, and the configuration they make
* ``tap``: the ``twistd logbus`` command: its service and process

Beside it:

* ``client``: the client for Twisted applications
* ``mirror``: copies topics of one cluster to another, exactly once
* ``pipeline``: the pipeline on Spark
* ``cli``: the ``logbus`` command
* ``testing``: brokers for tests, and the simulator

What all of them share:

* ``attrs_classes``: makes the classes of attrs small
* ``attrs_code``: keeps the compiled methods of attrs classes
* ``quick_imports``: makes the first imports of a process cheap
* ``late_imports``: imports modules with the first request that needs them, also when no descriptor is left
* ``model``: immutable values
* ``addresses``: addresses of hosts as text
* ``errors``: error codes and exceptions
* ``portability``: what macOS has by another name than Linux, or not at all
* ``re2_patterns``: regular expressions that match in linear time
* ``wording``: words of messages
* ``config``: Kafka's configuration keys
* ``log_levels``: levels of loggers, which change while the process runs
* ``log_output``: the log of the process, as text or JSON
* ``metrics``, ``series_limit``, ``exposition``: metrics, the limit of their series, and their text format
* ``conditions``: the conditions that a broker is in, such as a full disk, and what to do about each
* ``services``: lifecycles, and supervised background tasks
* ``timers``: many deadlines on one timer
* ``coroutines``: coroutine functions that return Deferreds
* ``signals``: signal handling
* ``sd_notify``: tells systemd how the process is
* ``processors``: the processors that a process may use, also within a container's limit
* ``compiled``: modules that are compiled from the source that also runs interpreted
* ``extension_modules``: imports the optional extension modules
* ``interpreter``: the build of the running Python
* ``extras``: hints for installing optional dependencies
"""

import logbus.compiled  # noqa: F401 - before any of the modules that it is about

__version__ = "0.1.0"
