"""
The rights that requests need: to the topic of the schemas, or to the topic that a subject is named for.
"""

from __future__ import annotations

from logbus.admin.authorization import HttpAccess
from logbus.errors import ApiError
from logbus.registry.errors import Code, RegistryRefusal
from logbus.registry.model import TOPIC
from logbus.registry.requests import RegistryRequest
from logbus.security.acl.acls import AclOperation, ResourceType

_OF_TOPIC = ("-key", "-value")
"""Ends of the subjects of a topic, as Confluent's serializers name them by default."""

MAY_READ = f"Needs Describe on the topic {TOPIC}."
MAY_CHANGE = f"Needs Alter on the topic {TOPIC}."
MAY_REGISTER = (
    f"Needs Alter on the topic {TOPIC}, or Write on the topic that the subject is named for; then with Describe on the "
    f"topic {TOPIC}, or Write on those topics as well, if the schema refers to those of other subjects."
)


def check_rights(request: RegistryRequest, access: HttpAccess) -> None:
    """
    Check that a client may do what it asks for.

    Schemas are read with Describe on the topic of the registry, and all is changed with Alter on it. Who may write to a
    topic may register the schemas of its keys and values, too; but what other subjects there are, and what their
    schemas define, a reference tells only who may know.

    :raise RegistryRefusal: it may not.
    :raise HttpProblem: it has not logged in, which may help.
    """
    try:
        if not request.writes:
            if request.path[:1] in (("schemas",), ("subjects",), ("compatibility",), ("config",), ("mode",)):
                access.require(AclOperation.DESCRIBE, ResourceType.TOPIC, TOPIC)
        elif not (request.method == "POST" and _may_write_topic(request.path[1], access)):
            access.require(AclOperation.ALTER, ResourceType.TOPIC, TOPIC)
        elif not all(_may_write_topic(each, access) for each in _referenced(request)):
            access.require(AclOperation.DESCRIBE, ResourceType.TOPIC, TOPIC)
    except ApiError as e:
        raise RegistryRefusal(Code.FORBIDDEN, f"User is denied operation on this server: {e.message}") from None


def _may_write_topic(subject: str, access: HttpAccess) -> bool:
    for end in _OF_TOPIC:
        topic = subject.removesuffix(end)
        if topic not in ("", subject) and access.may(AclOperation.WRITE, ResourceType.TOPIC, topic):
            return True
    return False


def _referenced(request: RegistryRequest) -> list[str]:
    """
    The subjects that a schema to be registered refers to; whether all is as it should be is checked later.

    :raise RegistryRefusal: the body is not a JSON object.
    """
    given = request.json().get("references")
    references = given if isinstance(given, list) else []
    return [str(each["subject"]) for each in references if isinstance(each, dict) and "subject" in each]
