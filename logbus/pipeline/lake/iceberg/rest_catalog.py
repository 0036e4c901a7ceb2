"""
PyIceberg's client of REST catalogs, with a time limit for each request, also those for tokens: it has none, and waits
without a word.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import OAuth2AuthManager, OAuth2TokenProvider
from requests import Session

from logbus.pipeline.blocking.patience import PATIENCE, telling

CONNECT_SECONDS, ANSWER_SECONDS = 60.0, 180.0
"""How long it takes at most until there is a connection, and until an answer comes."""


class LimitedRestCatalog(RestCatalog):
    """Says after :data:`.PATIENCE` seconds that there is no answer, and gives up after :data:`ANSWER_SECONDS`."""

    def _create_session(self) -> Any:
        session = super()._create_session()
        _limit(session, str(self.name))
        manager = self._auth_manager
        if isinstance(manager, OAuth2AuthManager):
            manager.token_provider = _LimitedTokens(str(self.name), manager.token_provider)
        return session

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> Any:
        _limit(session, str(self.name))  # It requests a token.
        return super()._create_legacy_oauth2_auth_manager(session)


class _LimitedTokens(OAuth2TokenProvider):
    """
    Requests tokens as PyIceberg does.

    :param like: has the settings.
    """

    def __init__(self, name: str, like: OAuth2TokenProvider) -> None:
        super().__init__(
            like.client_id, like.client_secret, like.token_url, like.scope, like.refresh_margin, like.expires_in
        )
        self.name = name

    def _refresh_token(self) -> None:
        data = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        with Session() as session:
            _limit(session, self.name)
            answer = session.post(self.token_url, data=data, headers={"Authorization": self._client_secret_header})
        answer.raise_for_status()
        found = answer.json()
        if not isinstance(found, dict) or not isinstance(found.get("access_token"), str):
            raise ValueError(f"{self.token_url}: the answer has no access_token")
        lasts = found.get("expires_in", self.expires_in)
        if lasts is None:
            raise ValueError(f"{self.token_url}: the answer has no expires_in; set auth.oauth2.expires_in")
        self._token, self._expires_at = found["access_token"], int(time.monotonic() + lasts - self.refresh_margin)


def _limit(session: Session, name: str) -> None:
    """Have the requests of a session, of the catalog of this name, end."""
    if "send" in vars(session):
        return
    send = session.send

    def send_limited(request: Any, **more: Any) -> Any:
        more["timeout"] = more.get("timeout") or (CONNECT_SECONDS, ANSWER_SECONDS)
        what = f"catalog {name!r} has not answered at {urlsplit(request.url).netloc} for {PATIENCE:g} s"
        with telling(f"{what}; still waiting"):
            return send(request, **more)

    session.send = send_limited  # type: ignore[method-assign]
