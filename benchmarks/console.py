"""
Measures the web console in a real Chromium, at a broker with many topics: the time to the first paint, the processor
time of the broker while pages are open, and a search through many records, to its end and stopped::

    python -m benchmarks.console [--topics 1000] [--megabytes 1024] [--seconds 60] [--rounds 5]

It needs Chromium and the extra ``browser``.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from playwright.sync_api import Browser, Page

from benchmarks.compare.process_cost import cost
from logbus.testing import Broker
from tests.browser.chromium import PATIENCE_MS, chromium

PAGES = ("/", "/console/topics", "/console/topics/topic-0007", "/console/topics/hay/records", "/console/groups")
OPEN = ("/", "/console/topics")
FIRST_PAINT = """() => new Promise(resolve => new PerformanceObserver(list => {
    for (const each of list.getEntriesByName("first-contentful-paint")) resolve(each.startTime);
}).observe({type: "paint", buffered: true}))"""
RECORD_BYTES = 1000
HAY = "hay " * ((RECORD_BYTES - 11) // 4)
#: Notes what is told of how far a search is, and when it is over.
WATCH = """() => {
    window.told = new Set();
    window.over = new Promise(resolve => { window.done = resolve; });
    const look = () => {
        window.told.add(document.getElementById("progress").textContent);
        const onward = document.querySelector("[data-continue]");
        const searches = onward && onward.querySelector("button");
        if (!onward || (window.searched && !searches)) window.done();
        window.searched = window.searched || searches;
    };
    const all = {childList: true, subtree: true, characterData: true};
    new MutationObserver(look).observe(document.querySelector("main"), all);
    look();
}"""


def _fill(broker: Broker, topics: int, megabytes: int) -> None:
    client: dict[str, str | int | float | bool] = {"bootstrap.servers": broker.bootstrap}
    admin = AdminClient(client)
    names = [f"topic-{number:04d}" for number in range(topics - 1)]
    new = [NewTopic("hay", 1, 1), *(NewTopic(name, 3, 1) for name in names)]
    for at in range(0, len(new), 100):
        for future in admin.create_topics(new[at : at + 100]).values():
            future.result(120)
    producer = Producer({**client, "linger.ms": 50, "batch.size": 1_000_000, "queue.buffering.max.kbytes": 65_536})
    for number in range(megabytes * 1_000_000 // RECORD_BYTES):
        value = f"{number:010d} {HAY}"
        while True:
            try:
                producer.produce("hay", value, f"key-{number % 1000}")
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def _first_paint(browser: Browser, url: str) -> float:
    """Milliseconds until a browser that knows nothing of the console shows a page."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(url)
    milliseconds = float(page.evaluate(FIRST_PAINT))
    context.close()
    return milliseconds


def _share(pid: int, seconds: float) -> float:
    """The share of a core that a process takes."""
    before, began = cost(pid).cpu, time.monotonic()
    time.sleep(seconds)
    return (cost(pid).cpu - before) / (time.monotonic() - began)


def _search(page: Page, broker: Broker, wanted: str, *, stop: bool = False) -> None:
    """Search for what is not found."""
    before, began = cost(broker.pid).cpu, time.monotonic()
    page.goto(f"{broker.admin_url}/console/topics/hay/records?from=oldest&{wanted}")
    page.evaluate(WATCH)
    onward = page.locator("[data-continue] a")
    goes_on = onward.count() > 0
    if goes_on:
        onward.click()
        if stop:
            page.get_by_role("button", name="Stop").click()
    page.evaluate("over")
    seconds, cpu = time.monotonic() - began, cost(broker.pid).cpu - before
    told, times = page.locator("#progress").inner_text(), page.evaluate("told.size")
    how = f"search for {wanted}{', stopped' if stop and goes_on else ''}"
    print(f"{how}: {seconds:.2f} s, CPU of the broker {cpu:.2f} s, told {times} times how far it is: {told}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=60.0, help="for which the pages are open")
    parser.add_argument("--rounds", type=int, default=5, help="of first paints")
    given = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="console-", dir=Path.cwd()) as directory,
        Broker(data_dir=directory, in_process=False, controlled=False) as broker,
        chromium() as browser,
    ):
        _fill(broker, given.topics, given.megabytes)
        print(f"{given.topics} topics, {given.megabytes} MB of records of {RECORD_BYTES} bytes")
        for path in PAGES:
            took = [_first_paint(browser, broker.admin_url + path) for _ in range(given.rounds)]
            print(f"first paint of {path}: median {statistics.median(took):.0f} ms, at most {max(took):.0f} ms")
        nothing = _share(broker.pid, given.seconds / 3)
        contexts = [browser.new_context() for _ in OPEN]
        for context, path in zip(contexts, OPEN, strict=True):
            context.new_page().goto(broker.admin_url + path)
        _share(broker.pid, 5)  # the first look at each
        watched = _share(broker.pid, given.seconds)
        print(f"the broker with no page open: {nothing:.2%} of a core; with {' and '.join(OPEN)}: {watched:.2%}")
        for context in contexts:
            context.close()
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        _search(page, broker, "value=needle")
        # In the values it is everywhere, so that each key must be decoded.
        _search(page, broker, "key=hay")
        _search(page, broker, "key=hay", stop=True)
        print(f"in the second after that the broker takes {_share(broker.pid, 1):.2%} of a core")


if __name__ == "__main__":
    main()
