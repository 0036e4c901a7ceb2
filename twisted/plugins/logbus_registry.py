from logbus.registry.resource import RegistryPlugin

registry = RegistryPlugin()
