"""
Pages beside the cluster: links to what else this listener serves, keyboard shortcuts, and the login.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen
from twisted.web.template import tags

from logbus.admin.problem_details import HttpProblem
from logbus.admin.routing import Router, route
from logbus.console.elements import card, link
from logbus.console.layout import SECTIONS
from logbus.console.page import Page, PageResult, SeeOther, Visit
from logbus.net.request_context import ANONYMOUS


@frozen
class LinkPages:
    """
    Links and the login.

    :ivar router: the routes of the HTTP API.
    :ivar mounted: first path segments of plugins' resources.
    :ivar challenge: makes the error that has a browser ask for a password.
    """

    router: Router
    mounted: Callable[[], Sequence[str]]
    challenge: Callable[[str], HttpProblem]

    @route("GET", "/console/links", "Links", rights="Everybody may see it.")
    async def links(self, visit: Visit) -> Page:
        found = [
            (each.path, each.summary) for each in self.router.routes if each.method == "GET" and not each.variables
        ]
        found += [(f"/{path}/", "Added by a plugin") for path in self.mounted()]
        keys = [
            *((key, text) for _, text, key in SECTIONS),
            ("/", "Filter this list"),
            ("p", "Pause the live tail of a topic, and continue it"),
            ("d", "Switch light and dark"),
        ]
        return Page(
            "Links",
            "/console/links",
            [
                card(
                    "For programs",
                    tags.ul(
                        [tags.li(link(path, path), tags.span(summary, class_="note")) for path, summary in found],
                        class_="links",
                    ),
                ),
                tags.section(
                    tags.h2("Keyboard shortcuts"),
                    tags.dl([tags.div(tags.dt(tags.kbd(key)), tags.dd(text)) for key, text in keys], class_="keys"),
                    class_="card",
                    id="keys",
                ),
            ],
        )

    @route("GET", "/console/sign-in", "Sign in", rights="Everybody may see it.")
    async def sign_in(self, visit: Visit) -> PageResult:
        if visit.principal == ANONYMOUS:
            raise self.challenge("Sign in to see more.")
        return SeeOther("/")
