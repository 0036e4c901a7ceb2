"""What a client of an event stream sees."""

from __future__ import annotations

import json
from typing import Any

from tests.admin.harness import Connection


class Stream:
    """What a client of a stream has got."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.text = ""

    def events(self) -> list[tuple[str, str, Any]]:
        """Names, ids and data since the last time."""
        self.text += self.connection.take().decode()
        found = []
        for block in self.text.split("\n\n"):
            # Chunks of HTTP/1.1 have their lengths on lines of their own.
            fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != ":")
            if "event" in fields:
                found.append((fields["event"], fields.get("id", ""), json.loads(fields["data"])))
        self.text = ""
        return found
