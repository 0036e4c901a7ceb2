"""
Finds the page of a request, has it made, and sends it.

twisted.web.template and the pages are imported with the first request for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Cooperator, deferLater
from twisted.logger import Logger

from logbus.admin.authorization import HttpAccess
from logbus.admin.event_stream import EVENT_STREAM, EventStreams
from logbus.admin.metric_history import MetricHistory
from logbus.admin.problem_details import HttpProblem, problem_of
from logbus.admin.routing import Headers, PendingResponse, Router, ViewResponse
from logbus.admin.schema_registry import ISchemaRegistry
from logbus.admin.site import AdminSite
from logbus.coordination.group_lag_history import LagHistory
from logbus.net.request_context import ANONYMOUS
from logbus.security.acl.acls import AclOperation

HTML = "text/html; charset=utf-8"


@define(eq=False, kw_only=True)
class ConsoleSite:
    """
    The pages at ``/`` and below ``/console``.

    :ivar api: returns the routes of the HTTP API.
    :ivar mounted: returns first path segments of plugins' resources.
    :ivar schemas: returns the schema registry, if there is one.
    :ivar lags: the lag of groups over the last hour, kept while the pages are served.
    :ivar history: the last hour of this broker, kept as long.
    :ivar challenge: makes the error that has a browser ask for a password.
    :ivar streams: the event streams of the listener.
    """

    api: Callable[[], Router]
    mounted: Callable[[], Sequence[str]]
    schemas: Callable[[], ISchemaRegistry | None]
    lags: LagHistory
    history: MetricHistory
    challenge: Callable[[str], HttpProblem]
    streams: EventStreams
    broker_id: int
    clock: IReactorTime
    _cooperator: Cooperator = field(init=False)
    _made: Any = field(default=None, init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self._cooperator = Cooperator(
            terminationPredicateFactory=lambda: lambda: True,  # one step per reactor turn
            scheduler=lambda step: self.clock.callLater(0, step),
        )

    @classmethod
    def of(cls, site: AdminSite) -> ConsoleSite:
        """Return the pages of a listener."""
        return cls(
            api=lambda: site.router,
            mounted=lambda: site.mounted_paths,
            schemas=lambda: ISchemaRegistry(site.mounted_resource("registry"), None),
            lags=site.lag_history,
            history=site.history,
            challenge=site.authentication.challenge,
            streams=site.streams,
            broker_id=site.broker.broker_id,
            clock=site.clock,
        )

    def start(self) -> None:
        """Begin to keep the last hour."""
        self.history.start()
        self.lags.start()

    def stop(self) -> None:
        """Stop doing so."""
        self.history.stop()
        self.lags.stop()

    def serves(self, path: str) -> bool:
        """Whether a path is one of the console's."""
        return path == "/" or path == "/console" or path.startswith("/console/")

    def answer(self, method: str, target: str, headers: Headers, body: bytes, access: HttpAccess) -> PendingResponse:
        """
        Answer a request; errors become pages, too. A browser that asks for ``text/event-stream`` gets what changes.

        :param target: path and query, as received.
        :raise HttpProblem: it may not follow.
        """
        if method == "GET" and headers.get("accept", ()) == [EVENT_STREAM]:
            return self._follow(target, access)
        return Deferred.fromCoroutine(self._answer(method, target, body, access))

    def _follow(self, target: str, access: HttpAccess) -> PendingResponse:
        from logbus.console.live_parts import LiveParts

        if access.is_restricted and access.principal == ANONYMOUS and not access.may_on_cluster(AclOperation.DESCRIBE):
            # No challenge: a browser that follows a page by itself would ask for a password.
            raise HttpProblem(
                HTTPStatus.FORBIDDEN, "There are only so many event streams: log in to follow a page, or load it anew."
            )
        path, _, query = target.partition("?")
        parts = LiveParts(lambda: self._visited("GET", path, query, b"", access), self.clock)
        return self.streams.respond(parts.events)

    def _parts(self) -> Any:
        if self._made is None:
            from logbus.console.access_page import AccessPage
            from logbus.console.acl_pages import AclPages
            from logbus.console.broker_pages import BrokerPages
            from logbus.console.config_pages import ConfigPages
            from logbus.console.group_change_pages import GroupChangePages
            from logbus.console.group_pages import GroupPages
            from logbus.console.layout import Layout
            from logbus.console.link_pages import LinkPages
            from logbus.console.logger_pages import LoggerPages
            from logbus.console.mirror_pages import MirrorPages
            from logbus.console.overview import OverviewPage
            from logbus.console.partition_pages import PartitionPages
            from logbus.console.quota_pages import QuotaPages
            from logbus.console.record_download import RecordDownload
            from logbus.console.record_pages import RecordPages
            from logbus.console.record_produce_page import RecordProducePage
            from logbus.console.record_tail_page import RecordTailPage
            from logbus.console.schema_change_pages import SchemaChangePages
            from logbus.console.schema_pages import SchemaPages
            from logbus.console.static_files import StaticFiles
            from logbus.console.topic_change_pages import TopicChangePages
            from logbus.console.topic_list_page import TopicListPage
            from logbus.console.topic_pages import TopicPages
            from logbus.console.transaction_pages import TransactionPages
            from logbus.console.user_pages import UserPages

            files, router = StaticFiles(), Router()
            router.add(
                [
                    OverviewPage(self.clock),
                    TopicListPage(self.clock),
                    TopicPages(self.clock),
                    TopicChangePages(),
                    RecordPages(),
                    RecordDownload(),
                    RecordProducePage(),
                    RecordTailPage(),
                    GroupPages(),
                    GroupChangePages(),
                    TransactionPages(self.clock),
                    MirrorPages(),
                    BrokerPages(self.clock),
                    ConfigPages(),
                    AccessPage(),
                    AclPages(),
                    QuotaPages(),
                    UserPages(),
                    LoggerPages(),
                    PartitionPages(),
                    SchemaPages(),
                    SchemaChangePages(),
                    LinkPages(self.api(), self.mounted, self.challenge),
                ]
            )
            self._made = files, router, Layout(self.broker_id, files.address)
        return self._made

    async def _answer(self, method: str, target: str, body: bytes, access: HttpAccess) -> ViewResponse:
        from logbus.console.page import Download, Page, SeeOther
        from logbus.console.static_files import PREFIX

        path, _, query = target.partition("?")
        if path.startswith(PREFIX):
            return cast(ViewResponse, self._parts()[0].answer(path.rpartition("/")[2]))
        result = await self._visited(method, path, query, body, access)
        if isinstance(result, SeeOther):
            return ViewResponse(HTTPStatus.SEE_OTHER, "", headers={"Location": result.location})
        if isinstance(result, Download):
            saved = {"Content-Disposition": f'attachment; filename="{result.name}"'}
            return ViewResponse(HTTPStatus.OK, result.content_type, result.body, saved)
        assert isinstance(result, Page)
        return await self._page(result, access)

    async def _visited(self, method: str, path: str, query: str, body: bytes, access: HttpAccess) -> Any:
        """Return what a page gives; if it fails, the page of the error."""
        try:
            return await self._visit(method, path, query, body, access)
        except Exception as e:
            return self._problem(e, method, path)

    async def _visit(self, method: str, path: str, query: str, body: bytes, access: HttpAccess) -> Any:
        from logbus.console.api_client import ApiClient
        from logbus.console.form_body import read_form
        from logbus.console.page import SeeOther, Visit

        if path.rstrip("/") == "/console":
            return SeeOther("/")
        methods, values = self._parts()[1].find(path)
        chosen = methods.get("GET" if method == "HEAD" else method)
        if chosen is None:
            allowed = ", ".join(sorted(methods))
            raise HttpProblem(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"This page does not answer {method}; it answers {allowed}.",
                {"Allow": allowed},
            )
        form = read_form(body.decode("utf-8", "surrogateescape")) if method == "POST" else {}
        visit = Visit(
            api=ApiClient(self.api(), access, self._cooperator, self.schemas()),
            path=path,
            names=dict(zip(chosen.variables, values, strict=True)),
            query=read_form(query, "The query"),
            form=form,
            pause=lambda: deferLater(self.clock, 0, lambda: ""),
        )
        return await chosen.call(visit)

    def _problem(self, error: Exception, method: str, path: str) -> Any:
        """Return the page of an error; one that is not expected is logged."""
        from logbus.console.api_client import ApiRefusal
        from logbus.console.elements import button_link, refusal
        from logbus.console.page import Page

        if not isinstance(error, ApiRefusal):
            status, told, headers = problem_of(error)
            if status is HTTPStatus.INTERNAL_SERVER_ERROR:
                self._log.failure("the page {method} {path} failed", method=method, path=path)
            error = ApiRefusal(status, told, headers)
        section = next((each for each in _sections() if each != "/" and path.startswith(each)), "")
        return Page(
            error.status.phrase,
            section,
            [refusal(error), button_link(section or "/", "Go back")],
            status=error.status,
            headers=error.headers,
        )

    async def _page(self, page: Any, access: HttpAccess) -> ViewResponse:
        from twisted.web.template import flattenString

        from logbus.console.layout import PAGE_HEADERS

        document = self._parts()[2].document(page, access.principal)
        text = await flattenString(None, document)
        headers: Mapping[str, str] = {**PAGE_HEADERS, **page.headers}
        return ViewResponse(page.status, HTML, b"<!DOCTYPE html>\n" + text, headers)


def _sections() -> list[str]:
    from logbus.console.layout import SECTIONS

    return [path for path, _, _ in SECTIONS]
