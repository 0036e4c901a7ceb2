"""
The test suites of other projects' clients, run with ``logbus test-server`` as their broker.

* ``sources``: the suites, as their projects publish them
* ``server``: a test server for a suite, by its command line
* ``aiokafka_docker``: stands for the ``docker`` with which aiokafka's suite starts its broker
* ``kafka_python_service``: what kafka-python's source distribution leaves out
"""
