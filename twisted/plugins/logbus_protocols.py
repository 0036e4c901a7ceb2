from logbus.protocols import AdminPlugin, KafkaPlugin

kafka = KafkaPlugin()
admin = AdminPlugin()
