"""The OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.json_schema import KEYWORDS
from tests.admin.harness import World

METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}


def schemas(document: Any) -> Iterator[dict[str, Any]]:
    """Every JSON Schema of a document, outermost."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name == "schema":
                yield value
            elif name != "examples":
                yield from schemas(value)
    elif isinstance(document, list):
        for value in document:
            yield from schemas(value)


class OpenApiTests(SynchronousTestCase):
    """The document is valid OpenAPI 3.1, and complete."""

    def setUp(self) -> None:
        self.world = World()
        answered = self.world.ask("GET", "/api/v1/openapi.json")
        self.assertEqual(answered.status, 200)
        self.document = answered.json

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Path, method and operation of each."""
        for path, item in self.document["paths"].items():
            for method, operation in item.items():
                yield path, method, operation

    def test_every_route_is_documented(self) -> None:
        """Every route is documented, and every documented route works."""
        served = {(route.path, route.method.lower()) for route in self.world.site.router.routes}
        self.assertEqual({(path, method) for path, method, _ in self.operations()}, served)
        self.assertGreater(len(served), 12)

    def test_outside(self) -> None:
        """The fixed fields of the document are there, and no others."""
        self.assertRegex(self.document["openapi"], r"^3\.1\.\d$")
        self.assertEqual(set(self.document), {"openapi", "info", "servers", "security", "paths", "components"})
        self.assertLessEqual({"title", "version"}, set(self.document["info"]))

    def test_operations(self) -> None:
        """Each operation has a unique id, its path's variables as parameters, and answers with descriptions."""
        ids = [operation["operationId"] for _, _, operation in self.operations()]
        self.assertEqual(len(ids), len(set(ids)), ids)
        for path, method, operation in self.operations():
            self.assertIn(method, METHODS)
            self.assertTrue(path.startswith("/"))
            given = operation.get("parameters", [])
            in_path = {p["name"] for p in given if p["in"] == "path"}
            self.assertEqual(in_path, set(re.findall(r"\{(\w+)\}", path)), path)
            self.assertTrue(all(p["required"] for p in given if p["in"] == "path"))
            self.assertEqual(len({(p["name"], p["in"]) for p in given}), len(given))
            self.assertIn("default", operation["responses"])
            for status, response in operation["responses"].items():
                self.assertRegex(status, r"^[1-5]\d\d$|^default$")
                self.assertTrue("$ref" in response or response["description"])
            self.assertEqual("requestBody" in operation, method in ("post", "patch", "put"), path)

    def test_headers(self) -> None:
        """Header fields of requests and answers are described: conditions, tags, addresses, and when to come back."""
        patch = self.document["paths"]["/api/v1/configs/topics/{topic}"]["patch"]
        given = [(p["name"], p["required"]) for p in patch["parameters"] if p["in"] == "header"]
        self.assertEqual(given, [("If-Match", False)])
        self.assertIn("ETag", patch["responses"]["200"]["headers"])
        created = self.document["paths"]["/api/v1/topics"]["post"]["responses"]["201"]
        self.assertTrue(created["headers"]["Location"]["required"])
        shared = self.document["components"]["responses"]
        self.assertIn("Retry-After", shared["Unavailable"]["headers"])
        self.assertIn("WWW-Authenticate", shared["Unauthorized"]["headers"])
        for path, _, operation in self.operations():
            for status, name in (("401", "Unauthorized"), ("429", "Unavailable"), ("503", "Unavailable")):
                told = operation["responses"][status]
                if path.startswith("/api/"):
                    self.assertEqual(told, {"$ref": f"#/components/responses/{name}"}, path)
                elif status == "503":
                    self.assertIn("Retry-After", told.get("headers", shared["Unavailable"]["headers"]), path)

    def test_references(self) -> None:
        """Every reference leads somewhere."""
        for reference in re.findall(r'"#/([^"]+)"', self.world.ask("GET", "/api/v1/openapi.json").body.decode()):
            place = self.document
            for step in reference.split("/"):
                place = place[step]
            self.assertTrue(place)

    def test_schemas(self) -> None:
        """Schemas are made of words that are checked; members that are required exist."""

        def walk(schema: dict[str, Any]) -> None:
            if "$ref" in schema:
                return
            self.assertLessEqual(set(schema), KEYWORDS)
            self.assertLessEqual(set(schema.get("required", [])), set(schema.get("properties", {})))
            for inner in schema.get("properties", {}).values():
                walk(inner)
            for word in ("items", "additionalProperties"):
                if isinstance(schema.get(word), dict):
                    walk(schema[word])

        found = list(schemas(self.document["paths"]))
        self.assertGreater(len(found), 12)
        for schema in [*found, *self.document["components"]["schemas"].values()]:
            walk(schema)
