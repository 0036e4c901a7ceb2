"""A blocking client of a schema registry (Confluent's REST API), for processes without a reactor."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, urlsplit

from attrs import field, frozen

from logbus.pipeline.errors import OptionError, PipelineError

_ACCEPT = "application/vnd.schemaregistry.v1+json"
_LONGEST = 8 << 20
_ATTEMPTS = 5


class RegistryFailed(PipelineError):
    """The registry returned an error, or did not answer."""


class NoSuchSchema(RegistryFailed):
    """The registry has no such schema."""


@frozen
class RegistryClient:
    """
    A schema registry. Nothing is cached here; callers cache schemas, which never change.

    :ivar url: such as ``http://127.0.0.1:8080/registry``.
    :ivar auth: ``name:password``; "" for none.
    :raise OptionError: the URL is invalid.
    """

    url: str
    auth: str = field(default="", repr=False)
    timeout: float = 30.0

    def __attrs_post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise OptionError(
                f"{self.url!r} is no URL of a schema registry, such as http://127.0.0.1:8080/registry; name and "
                "password are an option of their own"
            )

    def schema(self, schema_id: int) -> str:
        """
        The text of an Avro schema.

        :raise NoSuchSchema: there is none with this id, or it is not Avro.
        :raise RegistryFailed: the registry does not answer.
        """
        return self._avro(f"/schemas/ids/{schema_id}", f"schema {schema_id}")

    def latest(self, subject: str) -> str:
        """
        The text of a subject's latest version.

        :raise NoSuchSchema: there is no such subject, or it is not Avro.
        :raise RegistryFailed: the registry does not answer.
        """
        return self._avro(f"/subjects/{quote(subject, safe='')}/versions/latest", f"subject {subject!r}")

    def _avro(self, path: str, what: str) -> str:
        found = self._get(path)
        if found.get("schemaType", "AVRO") != "AVRO":
            raise NoSuchSchema(f"{what} is {found['schemaType']}, not AVRO")
        return str(found["schema"])

    def _get(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self.url.rstrip("/") + path, headers={"Accept": _ACCEPT})
        if self.auth:
            request.add_header("Authorization", "Basic " + base64.b64encode(self.auth.encode()).decode())
        problem = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(0.1 * 2**attempt)  # between attempts, not for an event
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                    text = answer.read(_LONGEST + 1)
                found = json.loads(text)
                if not isinstance(found, dict) or "schema" not in found:
                    raise ValueError("it has no schema")
                return found
            except urllib.error.HTTPError as e:
                said = _message(e)
                if e.code == 404:
                    raise NoSuchSchema(f"{request.full_url}: {said}") from None
                if e.code < 500 and e.code != 429:
                    raise RegistryFailed(f"{request.full_url}: {e.code}: {said}") from None
                problem = f"{e.code}: {said}"
            except (OSError, ValueError) as e:
                problem = str(getattr(e, "reason", e))
        raise RegistryFailed(f"{request.full_url}: {problem}")


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(_LONGEST))["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return str(error.reason)
