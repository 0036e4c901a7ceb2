"""
ACLs, and the authorizer that evaluates them. Pure.

* ``acls``: ACLs, the resources they are for, and filters of both (KIP-11, KIP-290).
* ``acl_index``: finds the ACLs that apply to a resource.
* ``iauthorizer``: the interface of authorizers, for plugins.
* ``standard_authorizer``: the built-in one, with the rules of Kafka's StandardAuthorizer.

A handler asks ``standard_authorizer``, which answers from its cache, or else by ``acl_index``.
"""
