from twisted.application.service import ServiceMaker

logbus = ServiceMaker("logbus", "logbus.tap", "A Kafka-compatible commit log.", "logbus")
