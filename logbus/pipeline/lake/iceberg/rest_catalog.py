"""PyIceberg's client of REST catalogs, with a time limit for each request: it has none, and waits without a word."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog.rest import RestCatalog

from logbus.pipeline.blocking.patience import PATIENCE, telling

CONNECT_SECONDS, ANSWER_SECONDS = 60.0, 180.0
"""How long it takes at most until there is a connection, and until an answer comes."""


class LimitedRestCatalog(RestCatalog):
    """Says after :data:`.PATIENCE` seconds that there is no answer, and gives up after :data:`ANSWER_SECONDS`."""

    def _create_session(self) -> Any:
        session = super()._create_session()
        send = session.send

        def send_limited(request: Any, **more: Any) -> Any:
            more["timeout"] = more.get("timeout") or (CONNECT_SECONDS, ANSWER_SECONDS)
            what = f"catalog {self.name!r} has not answered at {urlsplit(request.url).netloc} for {PATIENCE:g} s"
            with telling(f"{what}; still waiting"):
                return send(request, **more)

        session.send = send_limited  # type: ignore[method-assign]
        return session
