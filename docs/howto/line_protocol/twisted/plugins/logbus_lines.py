from logbus_line_protocol import LinePlugin

lines = LinePlugin()
