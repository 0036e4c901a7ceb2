"""The factory of the admin listener."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from attrs import frozen
from twisted.internet.interfaces import IProtocolFactory
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.resource import IResource, Resource
from twisted.web.server import NOT_DONE_YET, Request
from zope.interface import implementer
from zope.interface.verify import verifyObject

from logbus.admin.site import OWN
from logbus.ilogbus import IAdminResource, IBroker
from tests.admin.harness import Answered, World, request


class Page(Resource):
    """A plugin's page."""

    def getChild(self, path: bytes, request: Request) -> Resource:
        return self

    def render_GET(self, request: Request) -> bytes:
        if request.postpath or request.prepath[-1] == b"later":
            request.write(b"now ")
            self.request = request
            return NOT_DONE_YET  # type: ignore[no-any-return]
        if request.prepath[-1] == b"bug":
            raise KeyError("hunter2")
        return b"page of " + b"/".join(request.prepath)

    def render_POST(self, request: Request) -> bytes:
        assert request.content is not None
        return b"posted " + request.content.read()


@implementer(IAdminResource)
@frozen
class PagePlugin:
    """A plugin with a page."""

    path: bytes = b"page"
    page: Resource | None = None

    def resource(self, broker: IBroker) -> IResource:
        if self.page is None:
            raise KeyError("no page")
        return self.page


class SiteTests(SynchronousTestCase):
    """What the composition root sees."""

    def test_interface(self) -> None:
        """It is a protocol factory."""
        verifyObject(IProtocolFactory, World().site)

    def test_late_imports(self) -> None:
        """A broker without HTTP requests imports no web server, and installs no reactor."""
        code = (
            "import sys; import tests.admin.harness; "  # the harness needs twisted.web for itself
            "import logbus.admin.site; print('twisted.internet.reactor' in sys.modules)"
        )
        self.assertEqual(_python(code), "False")
        code = (
            "import sys, logbus.admin.site; "
            "print([name for name in sys.modules if name.startswith(('twisted.web', 'prometheus_client'))])"
        )
        self.assertEqual(_python(code), "[]")

    def test_routes_made_late(self) -> None:
        """The routes are made when something is asked for; what plugins cannot take is known before."""
        site = World().site
        site.doStart()
        self.assertNotIn("router", vars(site))
        self.assertEqual({route.segments[0].encode() for route in site.router.routes}, OWN)
        self.assertIn("router", vars(site))
        site.doStop()

    def test_stop_before_use(self) -> None:
        """Starting and stopping leaves nothing."""
        world = World()
        world.site.doStart()
        world.site.doStop()
        self.assertEqual(world.clock.getDelayedCalls(), [])


class PluginTests(SynchronousTestCase):
    """Resources of plugins on the listener."""

    def setUp(self) -> None:
        self.page = Page()
        self.world = World(plugins=[PagePlugin(page=self.page)])

    def test_mounted(self) -> None:
        """A plugin's resource and its children are served under its path, with our headers."""
        answered = self.world.ask("GET", "/page/a/b%2Fc?q=1")
        self.assertEqual((answered.status, answered.body), (200, b"page of page/a/b/c"))
        self.assertEqual(answered.headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(self.world.ask("HEAD", "/page").headers["Content-Length"], "12")

    def test_guard_and_limits_hold_for_plugins(self) -> None:
        """A form of a foreign page and a long body do not reach a plugin; JSON does."""
        answered = self.world.ask("POST", "/page", b"a=b", headers={"Content-Type": "text/plain"})
        self.assertEqual(answered.status, 415)
        self.assertEqual(self.world.ask("POST", "/page", b"x" * 65_537).status, 413)
        self.assertEqual(self.world.ask("POST", "/page", [1]).body, b"posted [1]")
        headers = {"Content-Type": "application/vnd.page.v1+json; charset=utf-8"}
        self.assertEqual(self.world.ask("POST", "/page", b"{}", headers=headers).body, b"posted {}")
        refused = self.world.ask("PUT", "/page")
        self.assertEqual((refused.status, refused.headers["Allow"]), (405, "GET, HEAD, POST"))

    def test_body_bytes_of_a_plugin(self) -> None:
        """A plugin may accept longer bodies than others, or only shorter ones, without effect on others."""

        class Long(PagePlugin):
            body_bytes = 100_000

        world = World(plugins=[Long(page=Page())])
        for target in ("/page", "/page/", "/page?q", "/page/a"):
            self.assertEqual(world.ask("POST", target, b"x" * 100_001).status, 413, target)
        self.assertEqual(len(world.ask("POST", "/page", b"x" * 100_000).body), len("posted ") + 100_000)
        self.assertEqual(world.ask("POST", "/pages", b"x" * 65_537).status, 413)

    def test_bug_of_a_plugin(self) -> None:
        """A plugin that fails is a problem without a traceback."""
        answered = self.world.ask("GET", "/page/bug")
        self.assertEqual((answered.status, answered.headers["Content-Type"]), (500, "application/problem+json"))
        self.assertNotIn(b"hunter2", answered.body)
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_answer_in_parts(self) -> None:
        """A plugin may answer later, as twisted.web has it."""
        connection = self.world.connect()
        connection.send(request("GET", "/page/later"))
        self.page.request.write(b"later")
        self.page.request.finish()
        self.assertEqual(Answered(connection.take()).body, b"now later")

    def test_bug_of_a_plugin_in_the_middle(self) -> None:
        """An answer that a plugin could not complete does not look complete."""
        from twisted.python.failure import Failure

        connection = self.world.connect()
        connection.send(request("GET", "/page/later"))
        self.page.request.processingFailed(Failure(KeyError("late")))
        self.assertTrue(connection.aborted)
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_unmountable_plugins(self) -> None:
        """A plugin that fails, or wants a path that is reserved, taken or empty, is left out; the others are served."""
        plugins: list[Any] = [
            PagePlugin(b"broken"),
            PagePlugin(b"api", self.page),
            PagePlugin(b"metrics", self.page),
            PagePlugin(b"console", self.page),
            PagePlugin(b"", self.page),
            PagePlugin(b"a/b", self.page),
            PagePlugin(b"..", self.page),
            PagePlugin(b"good", self.page),
            PagePlugin(b"good", Resource()),
        ]
        world = World(plugins=plugins)
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 7)
        self.assertEqual(world.ask("GET", "/good").status, 200)
        self.assertEqual(world.ask("GET", "/broken").status, 404)
        self.assertEqual(world.ask("GET", "/healthz").status, 200)

    def test_found_by_twisted(self) -> None:
        """Without a list, plugins are looked for where Twisted keeps them: the schema registry is there."""
        world = World(plugins=None)  # type: ignore[arg-type]
        self.assertEqual(world.ask("GET", "/healthz").status, 200)
        self.assertIn("registry", world.site.mounted_paths)


def _python(code: str) -> str:
    # Under trial the working directory is another one.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path) or os.getcwd()}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()
