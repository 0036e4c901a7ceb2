from logbus.wire.schema import Int16, message


@message(2000, versions="0-1", flexible="1+")
class PingRequest:
    """Ask."""

    number: Int16


@message(2000, versions="0-1", flexible="1+")
class PingAnswer:
    """Answer."""

    number: Int16
