"""
Builds the authorizer that ``authorizer.class.name`` names.
"""

from __future__ import annotations

from twisted.python.reflect import namedAny
from zope.interface.exceptions import Invalid
from zope.interface.verify import verifyObject

from logbus.cluster.acl_subscriber import AclSubscriber
from logbus.cluster.security_nodes import SecurityNodes
from logbus.config import ConfigView, keys
from logbus.config.keys.security import AUTHORIZERS
from logbus.errors import ConfigError
from logbus.security.acl.iauthorizer import IAuthorizer
from logbus.security.acl.standard_authorizer import StandardAuthorizer


def build_authorizer(config: ConfigView, nodes: SecurityNodes) -> IAuthorizer | None:
    """
    Return the authorizer; None: everybody may do everything.

    :param nodes: have the ACLs.
    :raises ConfigError: there is no such authorizer, or a super user is no principal.
    """
    name = config.get(keys.AUTHORIZER_CLASS_NAME)
    if not name:
        return None
    if name in AUTHORIZERS:
        principals: tuple[str, ...] = config.get(keys.SUPER_USERS)
        super_users = frozenset(principals)
        for each in super_users:
            kind, _, user = each.partition(":")
            # A comma may be in a principal, as of a certificate; one that divides two would leave neither.
            if not (kind and user) or ",User:" in user:
                raise ConfigError(f"super.users: {each!r} is not such as User:alice; several are divided by semicolons")
        authorizer = StandardAuthorizer(super_users, config.get(keys.ALLOW_EVERYONE_IF_NO_ACL_FOUND))
        AclSubscriber(authorizer).follow(nodes)
        return authorizer
    return _plugin(name)


def _plugin(name: str) -> IAuthorizer:
    """An authorizer of somebody else's."""
    key = keys.AUTHORIZER_CLASS_NAME.name
    try:
        made = namedAny(name)()
    except Exception as error:
        raise ConfigError(
            f"{key}={name}: {type(error).__name__}: {error}. It takes {' or '.join(AUTHORIZERS)}, or the "
            "dotted name of a Python class that provides logbus.security.acl.iauthorizer.IAuthorizer"
        ) from error
    try:
        verifyObject(IAuthorizer, made)
    except Invalid as error:
        # Of several faults zope.interface tells each in a line of its own.
        raise ConfigError(f"{key}={name} is no authorizer: {' '.join(str(error).split())}") from None
    authorizer: IAuthorizer = made
    return authorizer
