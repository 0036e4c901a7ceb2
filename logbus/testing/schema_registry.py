"""
A schema registry in memory, which answers as Confluent's documentation of its REST interface says, as far as writing
and reading records needs it.

.. code-block:: console

    $ python -m logbus.testing.schema_registry 8081

It checks neither schemas nor whether they are compatible, and forgets everything when it ends.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from attrs import define, field
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


@define(eq=False)
class Registry:
    """
    The registered schemas; :attr:`resource` is the HTTP resource, for a ``twisted.web.server.Site``.

    :ivar seen: method, path and headers of the requests.
    :ivar schemas: by id, from 1 on; ``subjects``: the ids of each one's versions.
    :ivar incompatible: schemas that are refused as such.
    :ivar troubles: answered instead, one for each request: status and body; None: not before :meth:`release`.
    """

    schemas: list[dict[str, Any]] = field(factory=list)
    subjects: dict[str, list[int]] = field(factory=dict)
    seen: list[tuple[str, str, Any]] = field(factory=list)
    troubles: list[tuple[int, bytes] | None] = field(factory=list)
    incompatible: set[str] = field(factory=set)
    held: list[tuple[_Root, Any]] = field(factory=list, init=False)

    @property
    def resource(self) -> Resource:
        """Answers requests."""
        return _Root(self)

    def release(self) -> None:
        """Answer the held requests."""
        held, self.held = self.held, []
        for resource, request in held:
            request.write(resource.answer(request))
            request.finish()

    def paths(self) -> list[str]:
        """The requests there were, such as ``GET /schemas/ids/1``."""
        return [f"{method} {path}" for method, path, _ in self.seen]

    def answer(self, method: str, path: list[str], body: Any) -> tuple[int, Any]:
        """What a request is answered, as status and JSON."""
        match [method, *path]:
            case ["GET", "subjects"]:
                return 200, sorted(self.subjects)
            case ["GET", "schemas", "ids", number]:
                if not number.isdigit() or not 0 < int(number) <= len(self.schemas):
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                return 200, self.schemas[int(number) - 1]
            case ["POST", "subjects", subject, "versions"]:
                return self._register(subject, body)
            case ["GET" | "POST", "subjects", subject, *_] if subject not in self.subjects:
                return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            case ["GET", "subjects", subject, "versions"]:
                return 200, list(range(1, len(self.subjects[subject]) + 1))
            case ["GET", "subjects", subject, "versions", version]:
                ids = self.subjects[subject]
                index = len(ids) if version == "latest" else int(version)
                if not 0 < index <= len(ids):
                    return 404, {"error_code": 40402, "message": f"Version {version} not found."}
                return 200, self._described(subject, ids[index - 1])
            case ["POST", "subjects", subject]:
                found = [each for each in self.subjects[subject] if self.schemas[each - 1]["schema"] == body["schema"]]
                if not found:
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                return 200, self._described(subject, found[0])
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _register(self, subject: str, body: Any) -> tuple[int, Any]:
        try:
            if body.get("schemaType") != "PROTOBUF":
                json.loads(body["schema"])
        except ValueError:
            return 422, {"error_code": 42201, "message": "Invalid schema"}
        if body["schema"] in self.incompatible:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
        ids = [index + 1 for index, each in enumerate(self.schemas) if each["schema"] == body["schema"]]
        if not ids:
            self.schemas.append({name: body[name] for name in ("schema", "schemaType", "references") if name in body})
            ids = [len(self.schemas)]
        versions = self.subjects.setdefault(subject, [])
        if ids[0] not in versions:
            versions.append(ids[0])
        return 200, {"id": ids[0]}

    def _described(self, subject: str, number: int) -> dict[str, Any]:
        version = self.subjects[subject].index(number) + 1
        return {"subject": subject, "version": version, "id": number, **self.schemas[number - 1]}


class _Root(Resource):
    isLeaf = True

    def __init__(self, registry: Registry) -> None:
        super().__init__()
        self.registry = registry

    def render(self, request: Any) -> Any:
        registry = self.registry
        registry.seen.append((request.method.decode(), request.uri.decode(), request.requestHeaders))
        request.setHeader("Content-Type", CONTENT_TYPE)
        if registry.troubles:
            trouble = registry.troubles.pop(0)
            if trouble is None:
                registry.held.append((self, request))
                return NOT_DONE_YET
            request.setResponseCode(trouble[0])
            return trouble[1]
        return self.answer(request)

    def answer(self, request: Any) -> bytes:
        """Write what the registry says."""
        path = [each.decode() for each in request.postpath]
        body = request.content.read()
        status, answer = self.registry.answer(request.method.decode(), path, json.loads(body) if body else None)
        request.setResponseCode(status)
        return json.dumps(answer).encode()


def main(port: int) -> None:
    """Serve a registry on 127.0.0.1 until Ctrl-C."""
    from twisted.internet import reactor as installed
    from twisted.web.server import Site

    reactor: Any = installed
    listening = reactor.listenTCP(port, Site(Registry().resource), interface="127.0.0.1")
    print(f"schema registry at http://127.0.0.1:{listening.getHost().port}", flush=True)
    reactor.run()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8081)
