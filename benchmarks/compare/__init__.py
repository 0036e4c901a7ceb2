"""
Compares logbus with Apache Kafka: the same bytes sent to both, on one machine, in one run.

``python -m benchmarks.compare`` is the command.  The path a figure takes:

* :mod:`.cells` names what is measured;
* :mod:`.systems` starts the two brokers (:mod:`.jars` fetches Kafka's);
* :mod:`.wire` writes the requests, byte for byte the same for both, and administers topics;
* :mod:`.native_programs` compiles the C programs that replay them (``benchmarks/native``);
* :mod:`.workloads` turns a cell into commands; :mod:`.rounds` runs them in turn, and :mod:`.process_cost`
  measures what they cost the brokers;
* :mod:`.touched_memory` makes the machine's memory be there, :mod:`.startup` measures starting and idling;
* :mod:`.machine_limits` says what the machine can do at that moment;
* :mod:`.report` prints the ratios.
"""
