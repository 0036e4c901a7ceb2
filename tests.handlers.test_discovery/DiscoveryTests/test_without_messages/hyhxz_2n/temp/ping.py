
from logbus.handlers.request_router import serves
from logbus.handlers.fetch import FetchHandlers


class Helper:
    pass


class PingHandlers:
    @classmethod
    def build(cls, broker):
        return cls()

    @serves(2000, 0, 1)
    def ping(self, context, request):
        pass
