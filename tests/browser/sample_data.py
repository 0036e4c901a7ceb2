"""What the broker holds whose console is looked at."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.request import Request, urlopen

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import logbus.console

HOSTILE = "<script>document.title='broken into'</script>"
"""A key, a value and a group that are script."""

VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "topic": "orders",
        "group": "billing",
        "broker": "0",
        "transaction": "payments",
        "mirror": "paris-to-rome",
        "partition": "0",
        "producer": "0",
        "offset": "0",
    }
)
"""Names for the variable parts of paths; the setting depends on whose it is."""
SETTINGS: Mapping[str, str] = MappingProxyType({"topics": "retention.ms", "brokers": "log.retention.ms"})

QUERIES: Mapping[str, str] = MappingProxyType(
    {
        "/console/access/delete-acl": "resource_type=topic&resource_name=orders&pattern_type=literal&principal=User:ada"
        "&host=*&operation=read&permission=allow",
        "/console/access/delete-user": "user=ada",
        "/console/schemas/subject": "subject=orders-value&against=1",
        "/console/schemas/delete": "subject=orders-value",
    }
)
"""Of paths that need one."""


FILLED: Mapping[str, str] = MappingProxyType(
    {
        "name": "swept",
        "principal": "User:ada",
        "resource_name": "orders",
        "user": "ada",
        "logger": "logbus.console",
        "replicas": "0",
        "subject": "swept-value",
        "schema": '"string"',
        "producer_byte_rate": "4096",
        "count": "9",
        "key": "swept",
        "value": "7200000",
        "topic": "orders",
        "before": "1",
    }
)
"""What to type where a form is empty, so that nothing is wrong with it."""


def routes(method: str) -> list[str]:
    """The paths of the console that answer a method, from its own routes."""
    found = set()
    for module in pkgutil.iter_modules(logbus.console.__path__):
        for each in vars(importlib.import_module(f"logbus.console.{module.name}")).values():
            if isinstance(each, type):
                declared = [getattr(function, "__route__", None) for function in vars(each).values()]
                found |= {route.path for route in declared if route is not None and route.method == method}
    return sorted(found)


def pages() -> list[str]:
    """The paths of all pages that are shown."""
    return sorted(set(routes("GET")) - {"/console/topics/{topic}/records.jsonl", "/console/sign-in"})


def path_of(pattern: str) -> str:
    """Fill the variable parts of a route's path."""
    parts = pattern.split("/")
    for at, part in enumerate(parts):
        if part == "{key}":
            parts[at] = SETTINGS[parts[2]]
        elif part.startswith("{"):
            parts[at] = VARIABLES[part[1:-1]]
    query = QUERIES.get(pattern)
    return "/".join(parts) + (f"?{query}" if query else "")


MIRROR: Mapping[str, str] = MappingProxyType(
    {
        "mirror.source.bootstrap.servers": "127.0.0.1:1",
        "mirror.source.name": "paris",
        "mirror.target.name": "rome",
    }
)
"""Settings of a broker, with a mirror whose source nobody reaches."""


def fill(bootstrap: str, hostile: bool = True) -> None:
    """
    Make topics, records, a group that is behind, and a transactional id.

    :param hostile: some names are script.
    """
    client: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap}
    admin = AdminClient(client)
    topics = [
        NewTopic("orders", 3, 1),
        NewTopic("payments", 2, 1),
        NewTopic("clicks", 6, 1),
        NewTopic("audit.log", 1, 1),
    ]
    for future in admin.create_topics(topics).values():
        future.result(60)
    producer = Producer(client)
    for number in range(120):
        order = {"order": number, "customer": f"c-{number % 17}", "total": round(3.99 * (number % 9 + 1), 2)}
        producer.produce(
            "orders", json.dumps(order), f"c-{number % 17}", headers={"source": b"shop", "trace": bytes([number, 255])}
        )
        producer.produce("clicks", f"/products/{number % 40}", f"visitor-{number % 23}")
    if hostile:
        producer.produce("orders", HOSTILE, HOSTILE, headers={HOSTILE: b"x"})
    _all_written(producer)
    for group in ("billing", HOSTILE) if hostile else ("billing",):
        consumer = Consumer({**client, "group.id": group, "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition("orders", partition, 5) for partition in range(3)], asynchronous=False)
        consumer.close()
    transactional = Producer({**client, "transactional.id": "payments"})
    transactional.init_transactions(60)
    transactional.begin_transaction()
    transactional.produce("payments", "paid", "c-1")
    transactional.commit_transaction(60)


def register_schemas(admin_url: str) -> None:
    """Make two versions of a subject."""
    item = {"name": "item", "type": "string"}
    gift = {"name": "gift", "type": "boolean", "default": False}
    for fields in ([item], [item, gift]):
        schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
        _send("POST", f"{admin_url}/registry/subjects/orders-value/versions", {"schema": schema})


def authorize(admin_url: str) -> None:
    """Make users, ACLs and quotas; the broker needs an authorizer."""
    for user in ("ada", "bob"):
        _send("PUT", f"{admin_url}/api/v1/users/{user}", {"password": f"the password of {user}"})
    for operation in ("read", "write"):
        acl = {
            "resource_type": "topic",
            "resource_name": "orders",
            "pattern_type": "literal",
            "principal": "User:ada",
            "host": "*",
            "operation": operation,
            "permission": "allow",
        }
        _send("POST", f"{admin_url}/api/v1/acls", {"items": [acl]})
    for entity in ({"user": "ada"}, {"client_id": None}):
        quotas = {"producer_byte_rate": 1_048_576, "request_percentage": 50}
        _send("PATCH", f"{admin_url}/api/v1/quotas", {"entity": entity, "quotas": quotas})


def _send(method: str, url: str, body: Any) -> None:
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method)
    with urlopen(request, timeout=60) as answer:
        answer.read()


def _all_written(producer: Producer) -> None:
    left = producer.flush(60)
    assert not left, f"{left} records were not written within a minute"
