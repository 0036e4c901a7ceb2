"""Tests of the registry's OpenAPI document."""

from __future__ import annotations

from typing import Any

from logbus.admin.json_schema import schema_errors
from logbus.registry.errors import Code
from logbus.registry.routes import ROUTES, allowed_methods
from tests.registry.kit import ORDER, RegistryCase


class OpenApiTests(RegistryCase):
    """It describes every route."""

    def setUp(self) -> None:
        super().setUp()
        self.document = self.ask("GET", "/openapi.json")

    def test_complete(self) -> None:
        """Every route is there, with its variables, its errors and an id of its own."""
        told = {(path, method) for path, item in self.document["paths"].items() for method in item}
        self.assertEqual(told, {(each.path, each.method.lower()) for each in ROUTES})
        operations = [each for item in self.document["paths"].values() for each in item.values()]
        self.assertEqual(len({each["operationId"] for each in operations}), len(ROUTES))
        for route in ROUTES:
            operation = self.document["paths"][route.path][route.method.lower()]
            in_path = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"]
            self.assertEqual(in_path, [part[1:-1] for part in route.segments if part.startswith("{")])
            for code in (*route.errors, Code.FORBIDDEN, Code.STORE):
                self.assertIn(str(int(code)), operation["responses"][str(code.status)]["description"])
            self.assertIn("401", operation["responses"])
            self.assertEqual("requestBody" in operation, route.body is not None)

    def test_answers(self) -> None:
        """What is answered is what the document says, and so are refusals."""
        self.register("a", ORDER)
        text = self.ask("GET", "/subjects/a/versions/1")
        values = {"subject": "a", "version": "latest", "id": "1", "guid": text["guid"]}
        bodies: dict[str, Any] = {
            "PUT": {"compatibility": "FULL", "mode": "READWRITE"},
            "POST": {"schema": text["schema"]},
        }
        order = ("PUT", "GET", "POST", "DELETE")
        for route in sorted(ROUTES, key=lambda each: (order.index(each.method), each.path)):
            body = bodies.get(route.method)
            if body is not None and route.method == "PUT":
                body = {name: body[name] for name in (route.body or {})["required"]}
            told = self.ask(route.method, route.path.format(**values), body)
            if route.path != "/openapi.json":
                self.assertEqual(list(schema_errors(route.answer, told)), [], route.path)
            if route.method == "DELETE" and route.path.startswith("/subjects"):
                self.register("a", ORDER)
        status, refused = self.registry.ask("GET", "/schemas/ids/9")
        self.assertEqual(list(schema_errors(self.document["components"]["schemas"]["Error"], refused)), [])
        self.assertEqual(status, 404)

    def test_methods(self) -> None:
        """A path says which methods it answers."""
        self.assertEqual(allowed_methods(("subjects", "a")), ["DELETE", "POST"])
        self.assertEqual(allowed_methods(("subjects",)), ["GET", "HEAD"])
        for method in ("PUT", "PATCH"):
            self.assertEqual(self.refused(method, "/subjects"), (405, 405))
        self.assertEqual(self.refused("PUT", "/nowhere"), (404, 404))


class HostileTests(RegistryCase):
    """What the document does not allow is refused, and nothing is taken for something else."""

    def test_parameters(self) -> None:
        """A parameter that is wrong is named; none is silently false."""
        self.register("a", ORDER)
        for query in (
            {"permanent": "yes"},
            {"permanent": ""},
            {"permanent": "1"},
        ):
            status, found = self.registry.ask("DELETE", "/subjects/a", **query)
            self.assertEqual((status, found["error_code"]), (400, 400))
            self.assertIn("permanent", found["message"])
        for query in ({"offset": "-1"}, {"limit": "-2"}, {"limit": "9" * 30}, {"limit": "٣"}, {"deletedOnly": "x"}):
            self.assertEqual(self.refused("GET", "/subjects", **query), (400, 400))
        self.assertEqual(self.ask("GET", "/subjects", deleted="False", deleted_only="FALSE", limit=-1), ["a"])
        self.assertEqual(self.ask("GET", "/subjects", unknown="x"), ["a"])

    def test_missing_subject(self) -> None:
        """The schema alone of a subject that is not there is not found."""
        self.assertEqual(self.refused("GET", "/subjects/x/versions/latest/schema"), (404, 40401))
        self.register("a", ORDER)
        self.assertEqual(self.refused("GET", "/subjects/a/versions/2/schema"), (404, 40402))

    def test_names(self) -> None:
        """What can be no subject has no settings, not even the global ones."""
        for path in ("/config", "/mode"):
            self.assertEqual(self.refused("GET", f"{path}/{'x' * 250}", defaultToGlobal=True), (422, 42208))

    def test_bodies(self) -> None:
        """A body that is no schema is refused wherever one is taken, whatever else is asked."""
        self.register("a", ORDER)
        text = self.ask("GET", "/subjects/a/versions/1")["schema"]
        for path, query in (
            ("/subjects/a", {}),
            ("/subjects/a/versions", {}),
            ("/compatibility/subjects/a/versions", {"verbose": True}),
            ("/compatibility/subjects/a/versions/1", {"verbose": True}),
        ):
            for body in (
                {},
                {"schema": text, "schemaType": {}},
                {"schema": text, "schemaType": ""},
                {"schema": text, "references": [{"name": "x", "subject": "y", "version": "1"}]},
            ):
                self.assertEqual(self.refused("POST", path, body, **query), (422, 42201), (path, body))
        for given in ({"id": "x"}, {"version": 1 << 31}, {"id": False}):
            self.assertEqual(self.refused("POST", "/subjects/a/versions", {"schema": text, **given}), (422, 422))
