from logbus.kafka07.plugin import KafkaSevenPlugin

kafka07 = KafkaSevenPlugin()
