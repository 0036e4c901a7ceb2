"""Tests of the console's pages as a browser gets them."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.authentication import HttpLogins
from logbus.cluster.cluster_metadata import PartitionImage
from logbus.conditions import LOG_DIRECTORY_FULL, LOG_UNCLEANABLE, Finding
from logbus.console import topic_list_page
from logbus.coordination.group_offsets import CommittedOffset
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.model import LeaderAndIsr, TopicPartition
from logbus.security.acl.acls import AclOperation, ResourceType
from tests.admin.harness import NOW, add_topic, replica
from tests.admin.test_authorization import Allows
from tests.admin.test_groups import classic
from tests.admin.test_transactions import transaction
from tests.console.kit import console, post, seen

PAGES = (
    "/",
    "/console/topics",
    "/console/new-topic",
    "/console/topics/orders",
    "/console/topics/orders/delete",
    "/console/topics/orders/settings/retention.ms",
    "/console/groups",
    "/console/transactions",
    "/console/brokers",
    "/console/brokers/0",
    "/console/brokers/0/settings/num.partitions",
    "/console/links",
)
SCRIPT = "<script>alert(1)</script>'\"&"


class FrameTests(SynchronousTestCase):
    """What all pages have."""

    def setUp(self) -> None:
        self.world = console()

    def test_every_page(self) -> None:
        """Each is well-formed, names its section, and can do nothing that the console's own files do not."""
        for path in PAGES:
            answered = self.world.ask("GET", path)
            page = seen(answered)
            self.assertEqual(answered.status, 200, path)
            self.assertEqual(len(page.having("a", aria_current="page")), 1, path)
            self.assertEqual(len(page.having("main", id="content")), 1)
            self.assertIn("#content", page.links)
            policy = answered.headers["Content-Security-Policy"]
            self.assertIn("default-src 'none'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(answered.headers["Cache-Control"], "no-store")

    def test_links_lead_somewhere(self) -> None:
        """No link of a page is broken."""
        known: set[str] = set()
        for path in PAGES:
            for target in seen(self.world.ask("GET", path)).links:
                target = target.partition("#")[0]
                if target and target not in known and not target.endswith(("/sign-in", "/records")):
                    known.add(target)
                    self.assertNotIn(self.world.ask("GET", target).status, (400, 404, 405, 500), target)
        self.assertTrue({"/metrics", "/readyz", "/healthz", "/api/v1/openapi.json"} <= known)

    def test_files_are_kept(self) -> None:
        """Browsers keep the style sheet and the script, whose addresses change with them."""
        page = seen(self.world.ask("GET", "/"))
        for address in (page.having("link", rel="stylesheet")[0]["href"], page.having("script")[0]["src"]):
            answered = self.world.ask("GET", address or "")
            self.assertEqual(answered.status, 200)
            self.assertIn("immutable", answered.headers["Cache-Control"])
        self.assertEqual(self.world.ask("GET", "/console/static/1/../console.css2").status, 404)

    def test_errors_are_pages(self) -> None:
        """What does not exist is told in the frame, with the way back."""
        for path, status in (
            ("/console/nope", 404),
            ("/console/topics/nope", 404),
            ("/console/topics/%FF", 400),
            ("/console/brokers/x", 400),
            ("/console/brokers/7", 404),
            ("/console/groups/nope", 404),
            ("/console/topics/orders/settings/nope", 404),
            ("/console/topics?filter=1&filter=2", 400),
            ("/console/topics/orders?after=x", 400),
        ):
            answered = self.world.ask("GET", path)
            self.assertEqual(answered.status, status, path)
            self.assertEqual(len(seen(answered).having("div", role="alert")), 1)

    def test_bug(self) -> None:
        """A bug is logged, and the page does not tell its words."""
        self.world.metadata.brokers[0] = object()  # type: ignore[index]
        answered = self.world.ask("GET", "/console/brokers")
        self.assertEqual(answered.status, 500)
        self.assertIn("in the broker's log", seen(answered).text)
        self.flushLoggedErrors()

    def test_methods(self) -> None:
        """A page that has no form takes none."""
        answered = post(self.world, "/console/topics", {})
        self.assertEqual((answered.status, answered.headers["Allow"]), (405, "GET"))
        self.assertEqual(self.world.ask("HEAD", "/").status, 200)

    @given(st.text(max_size=60))
    def test_any_path(self, path: str) -> None:
        """Any path gets a page."""
        from urllib.parse import quote

        for target in (
            f"/console/{quote(path)}",
            f"/console/topics/{quote(path, safe='')}",
            f"/console/topics?filter={quote(path)}",
        ):
            self.assertLess(console().ask("GET", target).status, 500, target)

    def test_stops(self) -> None:
        """A listener that stops leaves no timer."""
        self.world.site.stopFactory()
        self.assertEqual(self.world.clock.getDelayedCalls(), [])


class OriginTests(SynchronousTestCase):
    """Forms of other pages."""

    def setUp(self) -> None:
        self.world = console()

    def test_foreign_forms(self) -> None:
        """A form is taken from the console's own pages only, and what sends none of a browser's headers is no page."""
        fields = {"name": "evil", "confirmed": "yes"}
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": ""},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Sec-Fetch-Site": "none"},
            {"Origin": "", "Sec-Fetch-Site": "cross-site"},
        ):
            self.assertEqual(post(self.world, "/console/new-topic", fields, headers).status, 403, headers)
        self.assertEqual(self.world.topics.created, [])
        for headers in ({}, {"Sec-Fetch-Site": "same-origin"}, {"Origin": "", "Sec-Fetch-Site": "same-origin"}):
            name = f"good{len(self.world.topics.created)}"
            self.assertEqual(post(self.world, "/console/new-topic", {**fields, "name": name}, headers).status, 303)

    def test_other_types(self) -> None:
        """Pages take forms only, and the HTTP API still takes none."""
        answered = post(self.world, "/console/new-topic", {"name": "x"}, {"Content-Type": "text/plain"})
        self.assertEqual(answered.status, 415)
        answered = post(self.world, "/api/v1/topics", {"name": "x"})
        self.assertEqual(answered.status, 415)

    def test_huge_form(self) -> None:
        """A form beyond the limit is refused before it is read whole."""
        self.assertEqual(post(self.world, "/console/new-topic", {"name": "x" * 2_000_000}).status, 413)


class RightsTests(SynchronousTestCase):
    """Users see what they may."""

    def test_without_rights(self) -> None:
        """Somebody without a right is told in place which one is missing, and sees the rest."""
        world = console(authorizer=Allows())
        page = seen(world.ask("GET", "/"))
        self.assertIn("lacks a right: Describe on the Cluster", page.text)
        self.assertIn("Broker 0", page.text)
        self.assertNotIn("orders", seen(world.ask("GET", "/console/topics")).text)
        answered = post(world, "/console/new-topic", {"name": "new", "confirmed": "yes"})
        self.assertEqual((answered.status, world.topics.created), (403, []))
        self.assertIn("lacks a right: Create on the Topic new", seen(answered).text)

    def test_partly(self) -> None:
        """A topic is shown without the settings that the user may not see."""
        world = console(authorizer=_AllowsAnybody({(AclOperation.DESCRIBE, ResourceType.TOPIC, "orders")}))
        page = seen(world.ask("GET", "/console/topics/orders"))
        self.assertIn("DescribeConfigs on the Topic orders", page.text)
        self.assertIn("Cleanup needs the right DescribeConfigs", page.text)
        self.assertIn("Partitions", page.text)
        self.assertIn("needs the right DescribeConfigs", seen(world.ask("GET", "/console/topics")).text)

    def test_sign_in(self) -> None:
        """A browser asks for the password where a login may help."""
        world = console(authorizer=Allows(), logins=HttpLogins(plain=lambda user, password: password == "secret"))
        for path in ("/", "/console/sign-in"):
            answered = world.ask("GET", path)
            self.assertEqual(answered.status, 401)
            self.assertIn("Basic", answered.headers["WWW-Authenticate"])
        answered = world.ask("GET", "/console/sign-in", headers={"Authorization": "Basic YWxpY2U6c2VjcmV0"})
        self.assertEqual((answered.status, answered.headers["Location"]), (303, "/"))
        page = seen(world.ask("GET", "/console/links", headers={"Authorization": "Basic YWxpY2U6c2VjcmV0"}))
        self.assertIn("alice", page.text)

    def test_required_login(self) -> None:
        """Where a login is required, no page is shown without one."""
        world = console(logins=HttpLogins(required=True, plain=lambda user, password: False))
        for path in PAGES:
            self.assertEqual(world.ask("GET", path).status, 401)


class _AllowsAnybody(Allows):
    def authorize(self, principal: str, host: str, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        return super().authorize("User:alice", host, operation, kind, name)


class OverviewTests(SynchronousTestCase):
    """The first page."""

    def test_numbers(self) -> None:
        """It has the brokers, the controller and what is wrong."""
        page = seen(console().ask("GET", "/"))
        self.assertIn("Brokers 1 1 topic", page.text)
        self.assertIn("127.0.0.1:9092", page.text)

    def test_no_controller(self) -> None:
        """A cluster without a controller is said to have none."""
        world = console()
        world.metadata.controller_id = -1
        self.assertIn("Controller none", seen(world.ask("GET", "/")).text)

    def test_conditions(self) -> None:
        """What is wrong is told with what to do."""
        world = console()
        world.conditions.found(LOG_DIRECTORY_FULL, [Finding("/d", f"no space {SCRIPT}")], 12.5)
        page = seen(world.ask("GET", "/"))
        self.assertIn(f"no space {SCRIPT}", page.text)
        self.assertIn("since 1970-01-01 00:00:12 UTC", page.text)
        why = "orders-7/00000000000000000000.log at byte 66: CRC"
        world.conditions.found(LOG_UNCLEANABLE, [Finding("orders-7", why), Finding("bills-0", "no memory")], 13)
        page = seen(world.ask("GET", "/"))
        self.assertIn(f"{why} A compacted partition cannot be cleaned, and only grows. The message names", page.text)
        self.assertIn("bills-0: no memory", page.text)

    def test_transactions(self) -> None:
        """The longest transaction is first, and one over its timeout says so; aborting it needs its name."""
        world = console()
        begun = int(NOW * 1000) - 90_000
        world.transactions.add(transaction("a"))
        world.transactions.add(transaction("b/c", TransactionState.ONGOING, started_ms=begun))
        page = seen(world.ask("GET", "/console/transactions"))
        self.assertEqual(next(path for path in page.links if "transactions/" in path), "/console/transactions/b%2Fc")
        self.assertIn("over its timeout", page.text)
        page = seen(world.ask("GET", "/console/transactions/b%2Fc/abort"))
        self.assertIn("logbus transactions force-terminate b/c", page.text)
        self.assertEqual(post(world, "/console/transactions/b%2Fc/abort", {"confirmed": "yes"}).status, 400)


class ChangeTests(SynchronousTestCase):
    """Changes are shown with their command, asked for once, and told when done."""

    def setUp(self) -> None:
        self.world = console()

    def test_create(self) -> None:
        """A topic is created after a question that shows the command."""
        fields = {"name": "new", "partitions": "3", "replication_factor": "", "configs": "retention.ms=5\n"}
        page = seen(post(self.world, "/console/new-topic", fields))
        self.assertIn("logbus topics create new --partitions 3 --config retention.ms=5", page.text)
        self.assertEqual(self.world.topics.created, [])
        kept = {found["name"] or "": found["value"] or "" for found in page.having("input", type="hidden")}
        answered = post(self.world, "/console/new-topic", kept)
        self.assertEqual((answered.status, answered.headers["Location"]), (303, "/console/topics/new?done=created"))
        (created,) = self.world.topics.created
        self.assertEqual((created.name, created.num_partitions, created.configs), ("new", 3, {"retention.ms": "5"}))
        self.assertIn("The topic was created.", seen(self.world.ask("GET", answered.headers["Location"])).text)

    def test_create_wrong(self) -> None:
        """What is wrong is told beside its field, and what was typed is kept."""
        for fields, told in (
            ({"name": ""}, "Give the topic a name"),
            ({}, "Give the topic a name"),
            ({"name": "x", "partitions": "many"}, "whole number"),
            ({"name": "x", "partitions": "9" * 40}, "whole number"),
            ({"name": "x", "replication_factor": "1.5"}, "whole number"),
            ({"name": "x", "configs": "retention.ms"}, "not of the form name=value"),
            ({"name": "x", "configs": "=1"}, "not of the form name=value"),
        ):
            answered = post(self.world, "/console/new-topic", fields)
            page = seen(answered)
            self.assertEqual(answered.status, 400, fields)
            self.assertIn(told, page.text)
            self.assertEqual(page.having("input", name="name")[0]["value"], fields.get("name", ""))
        self.assertEqual(self.world.topics.created, [])

    def test_create_refused(self) -> None:
        """What the broker refuses is told on the form."""
        for name, status in (("orders", 409), ("x" * 300, 400)):
            answered = post(self.world, "/console/new-topic", {"name": name, "confirmed": "yes"})
            self.assertEqual(answered.status, status)
            self.assertEqual(seen(answered).having("input", name="name")[0]["value"], name)

    def test_delete(self) -> None:
        """A topic is deleted when its name has been typed."""
        path = "/console/topics/orders/delete"
        self.assertIn("logbus topics delete orders", seen(self.world.ask("GET", path)).text)
        for typed in ({}, {"typed_name": ""}, {"typed_name": "Orders"}):
            answered = post(self.world, path, {"confirmed": "yes", **typed})
            self.assertEqual(answered.status, 400)
            self.assertIn("This is not the name", seen(answered).text)
        self.assertEqual(self.world.topics.deleted, [])
        answered = post(self.world, path, {"confirmed": "yes", "typed_name": "orders"})
        self.assertEqual((answered.status, len(self.world.topics.deleted)), (303, 1))
        self.assertIn("The topic was deleted.", seen(self.world.ask("GET", answered.headers["Location"])).text)

    def test_setting(self) -> None:
        """A topic's setting is changed and restored."""
        path = "/console/topics/orders/settings/retention.ms"
        page = seen(post(self.world, path, {"value": "7 days; rm"}))
        self.assertIn("logbus configs set topic orders 'retention.ms=7 days; rm'", page.text)
        answered = post(self.world, path, {"value": "7 days; rm", "confirmed": "yes"})
        self.assertEqual(answered.status, 400)
        self.assertEqual(seen(answered).having("input", name="value")[0]["value"], "7 days; rm")
        self.assertEqual(post(self.world, path, {"value": "7", "confirmed": "yes"}).status, 303)
        self.assertEqual(self.world.metadata.topics["orders"].configs, {"retention.ms": "7"})
        page = seen(post(self.world, path, {"value": "7", "restore": "yes"}))
        self.assertIn("logbus configs delete topic orders retention.ms", page.text)
        self.assertEqual(post(self.world, path, {"restore": "yes", "confirmed": "yes"}).status, 303)
        self.assertEqual(self.world.metadata.topics["orders"].configs, {})

    def test_lag_over_time(self) -> None:
        """A group's page plots its lag once there are samples, and that of the partitions farthest behind."""
        self.world.groups.add(classic("billing"), {TopicPartition("orders", 0): CommittedOffset(4)})
        self.world.groups.add(classic("new"))
        self.assertIn("No samples yet", seen(self.world.ask("GET", "/console/groups/new")).text)
        self.world.clock.pump([1] * 130)
        page = seen(self.world.ask("GET", "/console/groups/billing"))
        self.assertEqual(len(page.having("svg")), 2)
        self.assertIn("orders-0, last hour. still to read: now 5", page.text)

    def test_two_people(self) -> None:
        """Who changes what somebody else has changed meanwhile is told so, on the form and when they confirm."""
        path = "/console/topics/orders/settings/retention.ms"
        shown = seen(self.world.ask("GET", path)).having("input", name="seen")[0]["value"] or ""
        form = {"value": "7", "seen": shown}
        asked = seen(post(self.world, path, form))
        self.assertEqual(asked.having("input", name="seen")[0]["value"], shown)
        self.assertEqual(post(self.world, path, {"value": "5", "confirmed": "yes"}).status, 303)
        for more in ({}, {"confirmed": "yes"}):
            answered = post(self.world, path, {**form, **more})
            self.assertEqual(answered.status, 409)
            page = seen(answered)
            self.assertIn("Somebody has changed this setting since you opened the form.", page.text)
            self.assertIn("Value 5", page.text)
            self.assertEqual(page.having("input", name="value")[0]["value"], "7")
        self.assertEqual(self.world.metadata.topics["orders"].configs, {"retention.ms": "5"})
        form["seen"] = page.having("input", name="seen")[0]["value"] or ""
        self.assertEqual(post(self.world, path, {**form, "confirmed": "yes"}).status, 303)
        self.assertEqual(self.world.metadata.topics["orders"].configs, {"retention.ms": "7"})

    def test_done_is_not_free_text(self) -> None:
        """A link cannot put words into the console's mouth."""
        page = seen(self.world.ask("GET", "/console/topics?done=All+is+lost"))
        self.assertNotIn("lost", page.text)


class ListTests(SynchronousTestCase):
    """Long lists, and names that are not nice."""

    def setUp(self) -> None:
        self.world = console()

    def add(self, count: int) -> None:
        for number in range(count):
            add_topic(self.world.metadata, f"topic-{number:04}", UUID(int=1000 + number))

    def test_pages(self) -> None:
        """All topics are reached page by page."""
        self.add(120)
        found: list[str] = []
        target = "/console/topics"
        while target:
            page = seen(self.world.ask("GET", target))
            found += [path for path in page.links if path.startswith("/console/topics/")]
            target = next((a["href"] or "" for a in page.having("a", class_="next")), "")
        self.assertEqual(len(found), 121)
        self.assertEqual(len(set(found)), 121)

    def test_filter(self) -> None:
        """A filter finds a part of a name in any case, past the first page of the API."""
        self.add(1200)
        page = seen(self.world.ask("GET", "/console/topics?filter=C-11"))
        found = [path for path in page.links if path.startswith("/console/topics/")]
        self.assertEqual(len(found), 50)
        following = page.having("a", class_="next")[0]["href"] or ""
        rest = [path for path in seen(self.world.ask("GET", following)).links if path.startswith("/console/topics/")]
        self.assertEqual(len(found) + len(rest), 100)
        self.assertIn("No topic here", seen(self.world.ask("GET", "/console/topics?filter=nothing")).text)

    def test_sorted(self) -> None:
        """The topics with the most of something are first, page by page; the head says which it is."""
        self.add(60)
        self.world.replicas.add(replica("topic-0033", 0, log_end_offset=5000))
        self.world.replicas.add(replica("topic-0007", 0, log_end_offset=70, size=9999))
        for sort, first in (("records", "topic-0033"), ("size", "topic-0007"), ("partitions", "orders")):
            page = seen(self.world.ask("GET", f"/console/topics?filter=o&sort={sort}"))
            found = [path.rpartition("/")[2] for path in page.links if path.startswith("/console/topics/")]
            self.assertEqual((found[0], len(found)), (first, 50))
            self.assertEqual(len(page.having("th", aria_sort="descending")), 1)
            following = page.having("a", class_="next")[0]["href"] or ""
            page = seen(self.world.ask("GET", following))
            rest = [path.rpartition("/")[2] for path in page.links if path.startswith("/console/topics/")]
            self.assertEqual((len(rest), len({*found, *rest})), (11, 61))

    def test_sorts_that_are_none(self) -> None:
        """What cannot be sorted by, and pages that do not exist, do no harm."""
        for query in ("sort=nonsense", "sort=size&page=99999999", "sort=size&page=-1", "sort=size&page=x"):
            self.assertEqual(self.world.ask("GET", f"/console/topics?{query}").status, 200, query)

    def test_most_that_are_sorted(self) -> None:
        """Of very many topics only some are sorted, and the page says so."""
        self.patch(topic_list_page, "API_ROWS", 10)
        self.patch(topic_list_page, "MOST_SORTED", 20)
        self.add(30)
        text = seen(self.world.ask("GET", "/console/topics?sort=records")).text
        self.assertIn("Only the first 20 topics by name are sorted", text)
        self.assertNotIn("topic-0020", text)

    def test_faulty_topics(self) -> None:
        """Topics with faulty partitions have badges, and are first if one sorts by state."""
        self.add(2)
        image = PartitionImage((0, 1), LeaderAndIsr(-1, 3, (0,)))
        with self.world.metadata.changing():
            self.world.metadata.set_partitions("zoo", UUID(int=9), [(0, image)])
        page = seen(self.world.ask("GET", "/console/topics?sort=state"))
        self.assertIn("zoo 1 offline 1 under-replicated 1 2", page.text)
        self.assertEqual(
            next(path for path in page.links if path.startswith("/console/topics/")), "/console/topics/zoo"
        )

    def test_groups_filter(self) -> None:
        """Groups are found by a part of their name and by their state, page by page."""
        for number in range(120):
            self.world.groups.add(classic(f"g-{number:03}", *([("m", [0])] if number % 2 else [])))
        page = seen(self.world.ask("GET", "/console/groups?filter=G-0&state=Stable"))
        found = [path for path in page.links if path.startswith("/console/groups/")]
        self.assertEqual((len(found), found[0]), (50, "/console/groups/g-001"))
        page = seen(self.world.ask("GET", "/console/groups?filter=g&state=Stable"))
        page = seen(self.world.ask("GET", page.having("a", class_="next")[0]["href"] or ""))
        self.assertEqual(len([path for path in page.links if path.startswith("/console/groups/")]), 10)
        self.assertEqual(page.having("option", selected="selected")[0]["value"], "Stable")
        text = seen(self.world.ask("GET", "/console/groups?state=Dead")).text
        self.assertIn("No group that you may see is such a one.", text)

    def test_settings_filter(self) -> None:
        """Settings are found by a part of their name."""
        page = seen(self.world.ask("GET", "/console/topics/orders?setting=RETENTION"))
        self.assertIn("retention.ms", page.text)
        self.assertNotIn("cleanup.policy", page.text)

    def test_script_as_text(self) -> None:
        """Whatever is typed or stored is text on a page."""
        for answered in (
            self.world.ask("GET", "/console/topics?filter=%3Cscript%3Ealert(1)%3C/script%3E"),
            post(self.world, "/console/new-topic", {"name": SCRIPT, "configs": SCRIPT}),
            post(self.world, "/console/new-topic", {"name": SCRIPT}),
            post(self.world, "/console/new-topic", {"name": "x", "configs": f"a={SCRIPT}"}),
            post(self.world, "/console/topics/orders/settings/retention.ms", {"value": SCRIPT}),
            self.world.ask("GET", "/console/groups/%3Cscript%3E"),
        ):
            self.assertNotIn(b"<script>", answered.body)
            self.assertEqual(len(seen(answered).having("script")), 1)

    def test_secrets(self) -> None:
        """A sensitive setting is not shown, and its field is one for passwords."""
        world = console(settings={"ssl.key.password": "hunter2"})
        answered = world.ask("GET", "/console/brokers/0?setting=ssl.key.password")
        self.assertIn("(hidden)", seen(answered).text)
        self.assertNotIn(b"hunter2", answered.body)
