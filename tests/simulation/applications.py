"""Applications that tests simulate: right ones, and one with a planted bug."""

from __future__ import annotations

import asyncio
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import deferLater

import logbus.client as twisted_client
from logbus.client.aio import Consumer, Producer
from logbus.coroutines import returns_deferred
from logbus.testing.simulation import SimulatedApplication, Simulation, TwistedSimulation, simulated

TOPICS = {"orders": 2, "invoices": 2}
_READING: dict[str, Any] = {
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "session_timeout": 10.0,
}


def with_orders(application: SimulatedApplication, *, exactly_once: bool = False) -> SimulatedApplication:
    """Give an application its input and its check."""

    @application.input
    async def orders(simulation: Simulation) -> None:
        for number in range(100):
            await simulation.produce("orders", b"%d" % number, key=b"%d" % (number % 7))
            await asyncio.sleep(simulation.random.expovariate(3))

    @application.check
    async def each_order_has_an_invoice(simulation: Simulation) -> None:
        orders = [record.value or b"" for record in await simulation.read("orders")]
        invoices = [record.value or b"" for record in await simulation.read("invoices")]
        missing = set(orders) - set(invoices)
        assert not missing, f"without an invoice: {sorted(missing)}"
        assert not exactly_once or sorted(invoices) == sorted(orders), "an order has two invoices"

    return application


async def bill(simulation: Simulation, *, commit_first: bool) -> None:
    async with (
        Consumer(simulation.bootstrap, "orders", group_id="billing", **_READING) as consumer,
        Producer(simulation.bootstrap) as producer,
    ):
        async for record in consumer:
            if commit_first:
                await consumer.commit()
            await asyncio.sleep(0.02)
            await producer.send_and_wait("invoices", record.value, key=record.key)
            if not commit_first:
                await consumer.commit()


@simulated(topics=TOPICS, instances=2)
async def at_least_once(simulation: Simulation) -> None:
    await bill(simulation, commit_first=False)


@simulated(topics=TOPICS, instances=2)
async def commits_first(simulation: Simulation) -> None:
    """Has a bug: a record is lost if the process is killed after its commit."""
    await bill(simulation, commit_first=True)


@simulated(topics=TOPICS, instances=2)
async def exactly_once(simulation: Simulation) -> None:
    async with (
        Consumer(simulation.bootstrap, "orders", group_id="billing", **_READING) as consumer,
        Producer(
            simulation.bootstrap, transactional_id=f"billing-{simulation.instance}", transaction_timeout=10
        ) as producer,
    ):
        while True:
            records = await consumer.getmany()
            async with producer.transaction(consumer) as transaction:
                for of_partition in records.values():
                    for record in of_partition:
                        await producer.send("invoices", record.value, key=record.key)
                await transaction.send_offsets(consumer)


@simulated(topics=TOPICS)
@returns_deferred
async def on_twisted(simulation: TwistedSimulation) -> None:
    cluster = twisted_client.Cluster(simulation.reactor, simulation.bootstrap)
    producer = twisted_client.Producer(cluster)
    consumer: Any = twisted_client.Consumer(cluster, "billing", **_READING)
    consumer.subscribe(["orders"])
    async for record in consumer:
        await deferLater(simulation.reactor, 0.02)
        await producer.send("invoices", record.value, key=record.key)
        await consumer.commit()


@simulated(topics={"numbers": 1})
@inlineCallbacks
def with_generators(simulation: TwistedSimulation) -> Any:
    for number in range(3):
        yield simulation.produce("numbers", b"%d" % number)
        yield deferLater(simulation.reactor, 1)


@with_generators.check
def three_numbers(simulation: TwistedSimulation) -> Deferred[None]:
    def check(records: list[Any]) -> None:
        assert {record.value for record in records} == {b"0", b"1", b"2"}

    return simulation.read("numbers").addCallback(check)


with_orders(at_least_once)
with_orders(commits_first)
with_orders(on_twisted)
with_orders(exactly_once, exactly_once=True)
