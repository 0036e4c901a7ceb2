"""A blocking client of a schema registry (Confluent's REST API), for processes without a reactor."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from attrs import field, frozen

from logbus.errors import short_reason
from logbus.pipeline.blocking.patience import PATIENCE, telling
from logbus.pipeline.errors import OptionError, PipelineError

_ACCEPT = "application/vnd.schemaregistry.v1+json"
_LONGEST = 8 << 20
_SHOWN = 60
"""Bytes of an answer that is no registry's, in its error."""

_ATTEMPTS = 5
"""Of requests with answers that are no registry's."""
_LONGEST_PAUSE = 3.0
"""Seconds between attempts."""
_NOT_FOUND = range(40400, 40500)
_FORMATS = {"PROTOBUF": "?format=serialized"}


class RegistryFailed(PipelineError):
    """The registry returned an error, or did not answer; or a certificate for it cannot be used."""


class NoSuchSchema(RegistryFailed):
    """The registry has no such schema."""


@frozen
class SchemaReference:
    """A schema that another one imports under a name: a version of a subject."""

    name: str
    subject: str
    version: int


@frozen
class RegisteredSchema:
    """
    A schema of the registry.

    :ivar schema_type: ``AVRO``, ``PROTOBUF`` or ``JSON``.
    :ivar text: as it was registered; of Protobuf the descriptor in base64, if that was requested.
    """

    schema_id: int
    schema_type: str
    text: str
    references: tuple[SchemaReference, ...] = ()


@frozen
class RegistryClient:
    """
    A schema registry. Nothing is cached here; callers cache schemas, which never change.

    :ivar url: such as ``http://127.0.0.1:8080/registry``; several with commas between are tried in turn.
    :ivar auth: ``name:password``; "" for none.
    :ivar token: a bearer token, instead of ``auth``; "" for none.
    :ivar timeout: seconds to wait for a response.
    :ivar retry_timeout: seconds to go on trying while it cannot be reached or is unavailable, as with brokers.
    :ivar trusted_file: a PEM file with the certificates to trust; "": the system's.
    :ivar own_file: a PEM file with this client's certificate chain and private key; "": none. Both files are read where
        the request is made.
    :raise OptionError: the URL is invalid, or there are both a password and a token.
    """

    url: str
    auth: str = field(default="", repr=False)
    timeout: float = 30.0
    token: str = field(default="", repr=False)
    trusted_file: str = ""
    own_file: str = ""
    retry_timeout: float = 60.0

    def __attrs_post_init__(self) -> None:
        for url in self._urls():
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
                raise OptionError(
                    f"{url!r} is no URL of a schema registry, such as http://127.0.0.1:8080/registry; name and "
                    "password are an option of their own"
                )
        if self.auth and self.token:
            raise OptionError("a schema registry takes a name with a password, or a token, not both")

    def schema(self, schema_id: int) -> str:
        """
        The text of an Avro schema.

        :raise NoSuchSchema: there is none with this id, or it is not Avro.
        :raise RegistryFailed: the registry does not answer.
        """
        return self.find(schema_id, "AVRO").text

    def latest(self, subject: str) -> str:
        """
        The text of a subject's latest version.

        :raise NoSuchSchema: there is no such subject, or it is not Avro.
        :raise RegistryFailed: the registry does not answer.
        """
        return self.version(subject, "latest", "AVRO").text

    def find(self, schema_id: int, schema_type: str) -> RegisteredSchema:
        """
        The schema with an id. Protobuf comes as its descriptor in base64.

        :param schema_type: what it must be.
        :raise NoSuchSchema: there is none with this id, or it is of another type.
        :raise RegistryFailed: the registry does not answer.
        """
        path = f"/schemas/ids/{schema_id}"
        found = self._request(path + _FORMATS.get(schema_type, ""))
        return _registered({**found, "id": schema_id}, schema_type, self.url + path)

    def version(self, subject: str, version: int | str, schema_type: str) -> RegisteredSchema:
        """
        A version of a subject; ``latest`` is the last one. Otherwise as :meth:`find`.

        :raise NoSuchSchema: there is no such subject or version, or it is of another type.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        return _registered(self._request(path + _FORMATS.get(schema_type, "")), schema_type, self.url + path)

    def look_up(self, subject: str, text: str, schema_type: str) -> int:
        """
        The id of a schema under a subject.

        :raise NoSuchSchema: it is not registered under this subject.
        :raise RegistryFailed: the registry refuses it, or does not answer.
        """
        return self._posted(f"/subjects/{quote(subject, safe='')}", text, schema_type)

    def register(self, subject: str, text: str, schema_type: str) -> int:
        """
        Register a schema as a version of a subject, unless it is one.

        :returns: its id.
        :raise RegistryFailed: the registry refuses it, or does not answer.
        """
        return self._posted(f"/subjects/{quote(subject, safe='')}/versions", text, schema_type)

    def _posted(self, path: str, text: str, schema_type: str) -> int:
        found = self._request(path, {"schema": text, "schemaType": schema_type})
        if not isinstance(found.get("id"), int):
            raise RegistryFailed(f"{self.url}{path}: the answer has no id of a schema")
        return int(found["id"])

    def _urls(self) -> list[str]:
        return [each.strip().rstrip("/") for each in self.url.split(",")]

    def _context(self) -> ssl.SSLContext | None:
        if not self.trusted_file and not self.own_file:
            return None
        # No OptionError: a worker that lacks a file cannot judge values, and these are not malformed.
        file = self.trusted_file
        try:
            made = ssl.create_default_context(cafile=file or None)
            if file := self.own_file:
                made.load_cert_chain(file)
        except (OSError, ValueError) as e:
            raise RegistryFailed(
                f"the registry's {file!r} cannot be used on {socket.gethostname()}: {short_reason(e)}"
            ) from None
        return made

    def _request(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        headers = {"Accept": _ACCEPT}
        if body is not None:
            headers["Content-Type"] = _ACCEPT
        if self.auth:
            headers["Authorization"] = "Basic " + base64.b64encode(self.auth.encode()).decode()
        elif self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        context, urls = self._context(), self._urls()
        deadline, attempt = time.monotonic() + self.retry_timeout, 0
        with telling(f"the schema registry at {self.url} has not answered for {PATIENCE:g} s; still trying"):
            while True:
                url = urls[attempt % len(urls)]
                request = urllib.request.Request(url + path, data, headers)
                is_away = True
                try:
                    with urllib.request.urlopen(request, timeout=self.timeout, context=context) as answer:
                        text = answer.read(_LONGEST + 1)
                    return _object_of(text)
                except urllib.error.HTTPError as e:
                    problem = _problem(e, url)
                except OSError as e:
                    cause = getattr(e, "reason", e)
                    problem = short_reason(cause).strip() or type(e).__name__
                    is_away = not isinstance(cause, ssl.SSLError)
                except (ValueError, http.client.HTTPException) as e:
                    problem, is_away = str(e).strip() or type(e).__name__, False
                attempt += 1
                pause = min(_LONGEST_PAUSE, 0.1 * 2**attempt)
                if time.monotonic() + pause > deadline or (attempt >= _ATTEMPTS and not is_away):
                    raise RegistryFailed(f"the schema registry fails: {request.full_url}: {problem}")
                time.sleep(pause)  # between attempts, not for an event


def _problem(error: urllib.error.HTTPError, url: str) -> str:
    """
    The message of a registry that is unavailable, or has too much to do.

    :raise RegistryFailed: any other answer with an error, which another attempt would not change.
    """
    said, is_of_registry = _message(error)
    if error.code == 404 and is_of_registry:
        raise NoSuchSchema(f"{error.url}: {said}") from None
    if error.code == 404:
        raise RegistryFailed(
            f"{url} is no schema registry ({error.url}: {said}); that of a logbus broker is at "
            "http://HOST:PORT/registry"
        ) from None
    if error.code < 500 and error.code != 429:
        raise RegistryFailed(f"{error.url}: {error.code}: {said}") from None
    return f"{error.code}: {said}"


def _object_of(text: bytes) -> dict[str, Any]:
    """
    The JSON object that an answer is.

    :raise ValueError: it is none.
    """
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"the answer is no JSON object: {text[:_SHOWN].decode(errors='replace')!r}")
    return found


def _registered(found: Mapping[str, Any], schema_type: str, what: str) -> RegisteredSchema:
    try:
        given = found.get("schemaType") or "AVRO"
        if given != schema_type:
            raise NoSuchSchema(f"{what}: its type is {given}, not {schema_type}")
        references = tuple(
            SchemaReference(str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in found.get("references") or ()
        )
        if not isinstance(text := found["schema"], str):
            raise TypeError(f"its schema is {text!r}")
        return RegisteredSchema(int(found["id"]), given, text, references)
    except (KeyError, TypeError, ValueError) as e:
        raise RegistryFailed(f"{what}: the registry's answer is no schema: {e!r}") from None


def _message(error: urllib.error.HTTPError) -> tuple[str, bool]:
    """
    The message of an error, and whether it is a schema registry's about a subject or schema.

    These have codes of their own, such as 40403. Confluent's registry has 404 for a path that is none of its own.
    """
    try:
        found = json.loads(error.read(_LONGEST))
        return str(found["message"]), found.get("error_code") in _NOT_FOUND
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return str(error.reason), False
