"""What is changed by the console: a topic's life, its settings, a group's offsets; and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from playwright.sync_api import Locator, Page, expect

from logbus.testing import Broker
from tests.browser.accessibility import SMALL


def _main(page: Page) -> Locator:
    return page.locator("main")


def _review(page: Page, button: str = "Review") -> None:
    page.get_by_role("button", name=button, exact=True).click()


def _confirm(page: Page, button: str, command: str) -> None:
    """The change is asked once, beside the command that does the same."""
    page.get_by_role("heading", name="Please confirm").wait_for()
    expect(_main(page)).to_contain_text(command)
    page.get_by_role("button", name=button, exact=True).click()


def _create(page: Page, broker: Broker, topic: str, partitions: int) -> None:
    page.goto(f"{broker.admin_url}/console/new-topic")
    page.locator("#field-name").fill(topic)
    page.locator("#field-partitions").fill(str(partitions))
    _review(page)
    _confirm(page, "Create", f"logbus topics create {topic} --partitions {partitions}")
    expect(_main(page)).to_contain_text("The topic was created.")


def _produce(page: Page, broker: Broker, topic: str, key: str, value: str) -> None:
    page.goto(f"{broker.admin_url}/console/topics/{topic}/produce")
    page.locator("#field-key").fill(key)
    page.locator("#field-value").fill(value)
    _review(page)
    _confirm(page, "Produce", "logbus produce")
    expect(_main(page)).to_contain_text("The record was written.")


def test_the_life_of_a_topic(open_page: Callable[..., Page], logbus_module_broker: Broker) -> None:
    """Created, written to, read, extended and deleted, in a narrow window."""
    page = open_page(SMALL)
    _create(page, logbus_module_broker, "trips", 2)
    topic = f"{logbus_module_broker.admin_url}/console/topics/trips"
    for number in range(3):
        _produce(page, logbus_module_broker, "trips", f"bus-{number}", json.dumps({"trip": number, "to": "Zürich"}))

    page.goto(f"{topic}/records")
    expect(page.locator("#found tbody tr")).to_have_count(3)
    page.get_by_label("Key contains").fill("bus-1")
    page.get_by_role("button", name="Show records").click()
    expect(page.locator("#found tbody tr")).to_have_count(1)
    expect(page.locator("#found")).to_contain_text("Zürich")
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON").first.click()
    lines = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    assert len(lines) == 1 and "bus-1" in json.dumps(lines), lines

    page.goto(topic)
    page.get_by_role("link", name="Add partitions").click()
    page.get_by_label("Partitions afterwards").fill("1")
    _review(page)
    _confirm(page, "Add", "logbus topics add-partitions trips --total")
    expect(page.get_by_label("Partitions afterwards")).to_have_value("1")
    page.get_by_label("Partitions afterwards").fill("5")
    _review(page)
    _confirm(page, "Add", "logbus topics add-partitions trips --total")
    expect(_main(page)).to_contain_text("The partitions were added.")

    page.get_by_role("link", name="Delete …").click()
    page.get_by_label("Type trips to confirm").fill("trip")
    page.locator("button.danger").click()
    expect(_main(page)).to_contain_text("This is not the name. Type trips to confirm.")
    page.get_by_label("Type trips to confirm").fill("trips")
    page.locator("button.danger").click()
    expect(_main(page)).to_contain_text("The topic was deleted.")


def test_a_topic_that_is_refused(open_page: Callable[..., Page], logbus_module_broker: Broker) -> None:
    """What is wrong is told beside the field, or above the form; what was typed is still there."""
    page = open_page()
    page.goto(f"{logbus_module_broker.admin_url}/console/new-topic")
    page.locator("#field-name").fill("bad name!")
    page.locator("#field-partitions").fill("two")
    _review(page)
    expect(page.locator("#partitions-error")).to_contain_text("whole number")
    expect(page.locator("#field-partitions")).to_be_focused()
    page.locator("#field-partitions").fill("2")
    _review(page)
    _confirm(page, "Create", "logbus topics create 'bad name!'")
    expect(page.locator(".message")).to_contain_text("bad name!")
    expect(page.locator("#field-name")).to_have_value("bad name!")
    expect(page.locator("#field-partitions")).to_have_value("2")


def test_a_setting(open_page: Callable[..., Page], logbus_module_broker: Broker) -> None:
    """A wrong value is refused with what would be right; a right one is shown with its source."""
    page = open_page()
    _create(page, logbus_module_broker, "kept", 1)
    page.goto(f"{logbus_module_broker.admin_url}/console/topics/kept/settings/retention.ms")
    for wrong in ("tomorrow", "1" * 300):
        page.get_by_label("New value").fill(wrong)
        _review(page, "Review the change")
        _confirm(page, "Change", "logbus")
        expect(page.get_by_label("New value")).to_have_value(wrong)
        expect(page.locator("#value-error, .error").first).to_contain_text("retention.ms")
    page.get_by_label("New value").fill("60000")
    _review(page, "Review the change")
    _confirm(page, "Change", "retention.ms=60000")
    expect(_main(page)).to_contain_text("The setting was changed.")
    expect(_main(page)).to_contain_text("60000")


def test_offsets_of_a_group(open_page: Callable[..., Page], logbus_module_broker: Broker) -> None:
    """A reset is previewed, and then made."""
    page = open_page()
    _create(page, logbus_module_broker, "read", 1)
    consumer = Consumer({"bootstrap.servers": logbus_module_broker.bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("read", 0, 0)], asynchronous=False)
    _produce(page, logbus_module_broker, "read", "", "one")
    page.goto(f"{logbus_module_broker.admin_url}/console/groups/readers/reset")
    page.get_by_label("From").select_option("latest")
    _review(page, "Preview")
    _confirm(page, "Reset", "logbus groups reset-offsets readers --all-topics --to-latest --execute")
    expect(_main(page)).to_contain_text("The offsets were reset.")
    assert [each.offset for each in consumer.committed([TopicPartition("read", 0)], 60)] == [1]
    consumer.close()
