"""
Refuses requests that a browser could be tricked into sending, before they are routed.

A page of another origin cannot read answers (there are no CORS headers) or change anything: a change must have the type
``application/json`` or ``application/...+json``, which browsers send to a foreign origin only after a preflight, and
preflights are never granted. The ``Host`` is checked against DNS rebinding, where a foreign page makes its own name
resolve to this address.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType

from attrs import frozen

from logbus.admin.problem_details import HttpProblem

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
ANY_HOST = "*"
FORM = "application/x-www-form-urlencoded"

SECURITY_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
)
"""Headers of every answer; a plugin's resource may replace them."""

_JSON = re.compile(r"application/([a-z0-9!#$&^_.-]{1,100}\+)?json")  # RFC 6839, 3.1
_AUTHORITY = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


@frozen
class RequestGuard:
    """
    Refuses requests by their headers.

    :ivar allowed_hosts: names accepted as ``Host`` besides ``localhost``, addresses and ``own_names``; ``*`` is any.
    :ivar own_names: known names of this machine and this broker.
    """

    allowed_hosts: Callable[[], Collection[str]]
    own_names: Callable[[], Collection[str]] = lambda: ()

    def check(
        self,
        method: str,
        version: str,
        headers: Mapping[str, Sequence[str]],
        takes_forms: bool = False,
        is_refused: bool = False,
    ) -> None:
        """
        Check the headers of a request.

        :param version: ``HTTP/1.1`` or ``HTTP/1.0``.
        :param headers: values by lower-case name.
        :param takes_forms: whether a form of one of our own pages is accepted instead of JSON.
        :param is_refused: whether the path does not answer the method, which is a better error than the type's.
        :raise HttpProblem: the request is refused.
        """
        host = self._check_host(version, headers.get("host", ()))
        if method in SAFE_METHODS:
            return
        origin = headers.get("origin", ())
        if origin and (len(origin) > 1 or origin[0].partition("://")[2].lower() != host.lower()):
            raise HttpProblem(
                HTTPStatus.FORBIDDEN,
                f"The request comes from a page of {origin[0]!r}; only pages of {host} may ask this.",
            )
        if takes_forms:
            _check_form(headers)
        elif not is_refused:
            _check_body(method, headers)

    def _check_host(self, version: str, hosts: Sequence[str]) -> str:
        if len(hosts) != 1 and (version != "HTTP/1.0" or hosts):
            raise HttpProblem(HTTPStatus.BAD_REQUEST, f"The request has {len(hosts)} Host headers; it must have one.")
        if not hosts:
            return ""
        parsed = _AUTHORITY.fullmatch(hosts[0])
        if parsed is None:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, f"The Host {hosts[0][:200]!r} is not of the form host:port.")
        name = parsed["name"].lower().removesuffix(".")
        if not self._is_known_host(name):
            raise HttpProblem(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"This listener is not known as {name!r}; use an address, localhost, this machine's host name, "
                "a name that the broker advertises, or one listed in the key admin.allowed.hosts.",
            )
        return hosts[0]

    def _is_known_host(self, name: str) -> bool:
        if name == "localhost" or name.endswith(".localhost") or _is_address(name.strip("[]")):
            return True
        known = {host.lower() for host in (*self.allowed_hosts(), *self.own_names())}
        return name in known or ANY_HOST in known


def _check_form(headers: Mapping[str, Sequence[str]]) -> None:
    """
    Check that a form comes from one of our own pages.

    Any page may send a form, and the browser adds the user's password. But it also says where the form was, in headers
    that pages cannot set: both are checked if they are there, and one must be.
    """
    sites = headers.get("sec-fetch-site", ())
    if (sites and tuple(sites) != ("same-origin",)) or not (sites or headers.get("origin")):
        raise HttpProblem(
            HTTPStatus.FORBIDDEN,
            "The form was not sent by a page of this console: the browser must say so by Origin or Sec-Fetch-Site.",
        )
    kinds = headers.get("content-type", ())
    if len(kinds) != 1 or kinds[0].partition(";")[0].strip().lower() != FORM:
        raise HttpProblem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"A page takes {FORM}; programs should use the HTTP API below /api/v1."
        )
    if headers.get("content-encoding"):
        raise HttpProblem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body has a Content-Encoding; send it as it is.")


def _check_body(method: str, headers: Mapping[str, Sequence[str]]) -> None:
    kinds = headers.get("content-type", ())
    has_body = "transfer-encoding" in headers or headers.get("content-length", ("0",))[0] != "0"
    if not (kinds or has_body or method == "POST"):
        return  # of the methods that change something, only POST is sent to a foreign origin without a preflight
    if len(kinds) != 1 or not _JSON.fullmatch(kinds[0].partition(";")[0].strip().lower()):
        told = repr(", ".join(kinds)[:200]) if kinds else "missing"
        raise HttpProblem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"The Content-Type is {told}; a request that changes something must say application/json.",
            {"Accept": "application/json"},
        )
    if headers.get("content-encoding"):
        raise HttpProblem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body has a Content-Encoding; send it as it is.")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
