"""Every page of the console is accessible, and no wider than the window: shown, to confirm, refused, in error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from playwright.sync_api import Page

from logbus.coordination.transactions import hanging_transactions
from logbus.testing import Broker
from tests.browser.accessibility import faults_of
from tests.browser.sample_data import FILLED, MIRROR, authorize, fill, pages, path_of, register_schemas, routes
from tests.cli.commands.test_transactions import Transactor

ERRORS = ("/console/topics/nope", "/console/topics/%FF", "/console/nowhere", "/console/brokers/7")
#: Fills what is empty in the form that goes to a path, but for one field, and sends it as it is.
SEND = """([path, filled, but]) => {
    const form = [...document.forms].find(each => each.method === "post" && new URL(each.action).pathname === path);
    for (const each of form.elements) {
        if (each.name && each.name !== but && !each.value && filled[each.name]) each.value = filled[each.name];
        if (each.name === but) each.value = "";
    }
    form.submit();
}"""
#: A password is typed twice instead, and there is no broker that a partition could move to.
NOT_ASKED = {"/console/access/password", "/console/topics/{topic}/partitions/{partition}/move"}
#: Fields without which the forms are refused.
NEEDED = {
    "/console/new-topic": "name",
    "/console/access/new-acl": "resource_name",
    "/console/access/password": "user",
    "/console/access/quotas": "user",
    "/console/brokers/{broker}/loggers": "logger",
    "/console/topics/{topic}/more-partitions": "count",
    "/console/schemas/register": "subject",
}


@pytest.fixture(scope="module")
def full_broker() -> Iterator[Broker]:
    """A broker with something of each kind to see, a transaction that hangs among it, which no test changes."""
    config = {
        **MIRROR,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "transaction.partition.verification.enable": "false",
    }
    with pytest.MonkeyPatch.context() as patched, Broker(config) as broker:
        # What has just been written hangs at once, rather than minutes later.
        patched.setattr(hanging_transactions, "GRACE_MS", -1_000_000_000)
        fill(broker.bootstrap)
        register_schemas(broker.admin_url)
        authorize(broker.admin_url)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(60)
        writer = Transactor(broker.bootstrap)
        writer.write("nobody", 4711, 2, 0)
        writer.close()
        yield broker


def _send(page: Page, broker: Broker, pattern: str, but: str = "") -> bool:
    """Send a form as it is shown; return whether there is one, other than one that confirms."""
    path = urlsplit(path_of(pattern)).path
    for shown in (path_of(pattern), path.rpartition("/")[0]):
        answer = page.goto(broker.admin_url + shown)
        if answer is not None and answer.ok:
            break
    if page.locator(f"form[action='{path}']:not(:has([name=confirmed]))").count() == 0:
        return False
    with page.expect_navigation():
        page.evaluate(SEND, [path, dict(FILLED), but])
    return True


def test_pages(open_page: Callable[..., Page], full_broker: Broker) -> None:
    """Those that are shown."""
    page, faults = open_page(), list[str]()
    for path in pages():
        answer = page.goto(full_broker.admin_url + path_of(path))
        assert answer is not None and answer.status == 200, f"{path}: {answer and answer.status}"
        faults += faults_of(page, path)
    assert not faults, "\n".join(faults)


def test_there_is_something_to_see(open_page: Callable[..., Page], full_broker: Broker) -> None:
    """The transaction that hangs is shown, and so are an ACL, a quota, a user, and why a mirror copies nothing."""
    page = open_page()
    page.goto(f"{full_broker.admin_url}/console/mirrors/paris-to-rome")
    page.locator("#problems .message").first.wait_for()
    page.goto(f"{full_broker.admin_url}/console/transactions")
    page.locator("#hanging tbody tr").wait_for()
    page.goto(f"{full_broker.admin_url}/console/access")
    for part in ("acls", "quotas", "users"):
        page.locator(f"#{part} tbody tr").first.wait_for()


def test_confirmations(open_page: Callable[..., Page], full_broker: Broker) -> None:
    """Those that ask whether a change should be made."""
    page, faults, seen = open_page(), list[str](), 0
    for pattern in routes("POST"):
        if pattern not in NOT_ASKED and _send(page, full_broker, pattern):
            assert page.get_by_role("heading", name="Please confirm").count() == 1, f"{pattern}: {page.content()}"
            faults += faults_of(page, f"{pattern} to confirm")
            seen += 1
    assert not faults, "\n".join(faults)
    assert seen >= 8, seen


def test_refusals(open_page: Callable[..., Page], full_broker: Broker) -> None:
    """Forms on which something is wrong, and errors."""
    page, faults = open_page(), list[str]()
    for pattern, field in NEEDED.items():
        assert _send(page, full_broker, pattern, field), pattern
        assert page.locator("[aria-invalid], .error").count(), pattern
        faults += faults_of(page, f"{pattern} without {field}")
    for path in ERRORS:
        answer = page.goto(full_broker.admin_url + path)
        assert answer is not None and answer.status >= 400, path
        faults += faults_of(page, f"{path} as an error")
    assert not faults, "\n".join(faults)
