"""The admin client for asyncio."""

from __future__ import annotations

import inspect

import pytest

from logbus.client import NewTopic
from logbus.client.admin import admin_client as core
from logbus.client.aio import AdminClient
from logbus.errors import ApiError
from tests.client.aio.kit import run


def public(found: type) -> set[str]:
    """The names of a class's methods."""
    return {name for name, each in inspect.getmembers(found, callable) if not name.startswith("_")}


def test_topics(bootstrap: str, topic: str) -> None:
    """Answers come for each thing asked about, errors among them."""

    async def work() -> None:
        async with AdminClient(bootstrap, request_timeout=10.0) as admin:
            assert await admin.create_topics([NewTopic(topic, 2)]) == {topic: None}
            assert isinstance((await admin.create_topics([NewTopic(topic, 2)]))[topic], ApiError)
            (found,) = [each for each in await admin.list_topics() if each.name == topic]
            assert len(found.partitions) == 2
            assert await admin.delete_topics([topic]) == {topic: None}
            assert len((await admin.describe_cluster()).nodes) == 1

    run(work())


def test_all_methods() -> None:
    """It has all methods of the Twisted client's, as coroutine functions with the same arguments."""
    assert public(AdminClient) - {"start", "close"} == public(core.AdminClient)
    for name in public(core.AdminClient):
        ours, theirs = getattr(AdminClient, name), getattr(core.AdminClient, name)
        assert inspect.iscoroutinefunction(ours)
        assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters
        assert ours.__doc__ == theirs.__doc__
        assert "Deferred" not in str(inspect.signature(ours).return_annotation)


def test_options() -> None:
    """Wrong options are refused."""
    with pytest.raises(TypeError, match="nonsense"):
        AdminClient("127.0.0.1:9092", nonsense=1)  # type: ignore[call-arg]
