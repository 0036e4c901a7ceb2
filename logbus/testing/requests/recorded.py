"""A request that a broker got, and what became of it. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from attrs import define, field, frozen

from logbus.errors import ErrorCode
from logbus.testing.requests.apis import WrongRequest, api_key_of
from logbus.wire.element_budget import RESPONSE_ELEMENTS, element_budget
from logbus.wire.error_codes import error_finder
from logbus.wire.messages import api, api_name
from logbus.wire.schema import decoder

MARK = -1
"""The API key of a mark that the test made itself."""

_NAMES = {code.value: code.name for code in ErrorCode}

Subject = tuple[str, int | None]
"""A topic, and a partition, or None: the request names none."""


@define(eq=False)
class RecordedRequest:
    """
    A request.

    :ivar number: counts the requests of a broker, from 1 on.
    :ivar api: Kafka's name of the API.
    :ivar version: of the request.
    :ivar client_id: None: it has none.
    :ivar connection: tells connections apart.
    :ivar received: seconds since 1970.
    :ivar answered: likewise; None: it has no answer, or none yet.
    :ivar subjects: the topics and partitions that it names.
    """

    number: int
    api_key: int
    version: int
    client_id: str | None
    connection: int
    received: float
    subjects: tuple[Subject, ...] = ()
    text: str = ""
    answered: float | None = None
    _codes: tuple[int, ...] = ()
    # A body whose errors nobody has asked for yet.
    _body: bytes | None = field(default=None, repr=False)

    @property
    def api(self) -> str:
        """Kafka's name of its API."""
        return "mark" if self.api_key == MARK else api_name(self.api_key)

    @property
    def codes(self) -> tuple[int, ...]:
        """The codes of the errors in the answer, one for each element that has one."""
        body = self._body
        if body is not None:
            self._codes = codes_of(self.api_key, self.version, decoded(self.api_key, self.version, body))
            # Only now: until then, another thread that asks finds them in the body, too.
            self._body = None
        return self._codes

    @property
    def errors(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(_NAMES.get(code, str(code)) for code in self.codes)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it names, each once."""
        return tuple(dict.fromkeys(topic for topic, _ in self.subjects))

    @property
    def seconds(self) -> float | None:
        """How long the answer took; None: there is none."""
        return None if self.answered is None else self.answered - self.received

    def as_json(self) -> dict[str, object]:
        """It as values that JSON has."""
        return {
            "number": self.number,
            "api": self.api,
            "version": self.version,
            "client_id": self.client_id,
            "connection": self.connection,
            "received": self.received,
            "answered": self.answered,
            "partitions": [{"topic": topic, "partition": partition} for topic, partition in self.subjects],
            "errors": list(self.errors),
            **({"mark": self.text} if self.api_key == MARK else {}),
        }

    def done(self, now: float, codes: tuple[int, ...] = (), body: bytes | None = None) -> None:
        """It was answered: with errors, or with a body in which they are found when somebody asks."""
        self._codes, self._body = codes, body
        self.answered = now

    def __str__(self) -> str:
        if self.api_key == MARK:
            return f"{self.number}: mark {self.text!r}"
        about = ", ".join(topic if number is None else f"{topic}-{number}" for topic, number in self.subjects[:5])
        more = f" and {len(self.subjects) - 5} more" if len(self.subjects) > 5 else ""
        seconds = self.seconds
        result = (
            "no answer"
            if seconds is None
            else f"{', '.join(sorted(set(self.errors))) or 'ok'} in {seconds * 1000:.1f} ms"
        )
        client = "a client" if self.client_id is None else self.client_id
        return f"{self.number}: {client}#{self.connection} {self.api} {about or '-'}{more}: {result}"


@frozen
class Wanted:
    """
    Which requests are meant. Names may have wildcards.

    :ivar api_key: None: of all APIs.
    :ivar error: the name of an error in the answer; ``NONE``: it has none.
    :ivar text: of a mark.
    """

    api_key: int | None = None
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    error: str | None = None
    text: str | None = None

    def matches(self, request: RecordedRequest) -> bool:
        """Whether a request is meant."""
        if self.text is not None or request.api_key == MARK:
            return request.api_key == MARK and self.text is not None and fnmatchcase(request.text, self.text)
        return (
            (self.api_key is None or request.api_key == self.api_key)
            and (self.client_id is None or fnmatchcase(request.client_id or "", self.client_id))
            and ((self.topic is None and self.partition is None) or any(map(self._names, request.subjects)))
            and (self.error is None or self._has_error(request))
        )

    def _names(self, subject: Subject) -> bool:
        topic, partition = subject
        return (self.topic is None or fnmatchcase(topic, self.topic)) and self.partition in (None, partition)

    def _has_error(self, request: RecordedRequest) -> bool:
        if self.error == ErrorCode.NONE.name:
            return request.answered is not None and not request.errors
        return self.error in request.errors

    def __str__(self) -> str:
        if self.text is not None:
            return f"mark {self.text!r}"
        said = [
            f"{name}={value}"
            for name in ("client_id", "topic", "partition", "error")
            if (value := getattr(self, name)) is not None
        ]
        called = "request" if self.api_key is None else api_name(self.api_key)
        return called + (f" ({', '.join(said)})" if said else "")


def wanted(
    api: str | int = "*",
    *,
    client_id: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    error: str | None = None,
) -> Wanted:
    """
    Which requests are meant, after the values were looked at.

    :raise WrongRequest: there is no such API or error.
    """
    if error is not None and error not in ErrorCode.__members__:
        raise WrongRequest(
            f"error: Kafka has no error {error!r}: expected one such as 'NOT_LEADER_OR_FOLLOWER', or 'NONE'"
        )
    return Wanted(api_key_of(api), client_id, topic, partition, error)


def codes_of(api_key: int, version: int, answer: Any) -> tuple[int, ...]:
    """The error codes in a response."""
    find = error_finder(api_key, version)
    if find is None or answer is None:
        return ()
    found: list[int] = []
    find(answer, lambda _, code: found.append(code))
    return tuple(found)


def decoded(api_key: int, version: int, body: bytes) -> Any:
    """The response in a body; None: it was damaged."""
    read = decoder(api(api_key).response, version)
    try:
        return read(body, 0, element_budget(len(body), RESPONSE_ELEMENTS))[0]
    except Exception:
        return None
