"""logbus.broker.authorizer: the authorizer that a configuration names."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from logbus.broker.authorizer import build_authorizer
from logbus.cluster.security_nodes import SecurityNodes
from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.security.acl.acls import AclOperation, ResourceType
from logbus.security.acl.iauthorizer import IAuthorizer

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@implementer(IAuthorizer)
class Everybody:
    """Allows everything."""

    version = 0

    def authorize(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        return True

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        return True


def built(**settings: str) -> IAuthorizer | None:
    given = {name.replace("__", "."): value for name, value in settings.items()}
    return build_authorizer(ConfigView.load(set=given), SecurityNodes())


class BuildTests(SynchronousTestCase):
    """Of the key authorizer.class.name."""

    def test_none(self) -> None:
        """By default everybody may do everything."""
        self.assertIsNone(built())

    def test_standard(self) -> None:
        """Either of Kafka's names; super users may do everything."""
        for name in (STANDARD, "kafka.security.authorizer.AclAuthorizer"):
            authorizer = built(authorizer__class__name=name, super__users="User:root;User:boss")
            assert authorizer is not None
            asked = ("h", AclOperation.READ, ResourceType.TOPIC, "t")
            allowed = [authorizer.authorize(who, *asked) for who in ("User:root", "User:boss", "User:a")]
            self.assertEqual(allowed, [True, True, False])

    def test_plugin(self) -> None:
        """A class of somebody else's."""
        self.assertIsInstance(built(authorizer__class__name=f"{__name__}.Everybody"), Everybody)

    def test_wrong(self) -> None:
        """The error names the key, and what would be right."""
        for settings, words in (
            ({"authorizer__class__name": "no.such.thing"}, "it takes kafka.security.authorizer.AclAuthorizer or"),
            ({"authorizer__class__name": "builtins.dict"}, "builtins.dict is no authorizer"),
            ({"authorizer__class__name": STANDARD, "super__users": "root"}, "super.users: 'root' is not such as User:"),
            (
                {"authorizer__class__name": STANDARD, "super__users": "User:a,User:b"},
                "several are divided by semicolons",
            ),
        ):
            told = str(self.assertRaises(ConfigError, built, **settings))
            self.assertIn(words.lower(), told.lower())
            self.assertNotIn("\n", told)
