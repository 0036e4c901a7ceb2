"""Tests of the registry's answers, which Confluent's clients expect."""

from __future__ import annotations

import builtins
import json
from typing import Any
from unittest import mock

from attrs import evolve

from logbus.registry.requests import RegistryRequest, run
from logbus.registry.routes import answer
from tests.registry.kit import GIFT, ORDER, PRICE, RegistryCase


class RegisterTests(RegistryCase):
    """New versions."""

    def test_ids_and_versions(self) -> None:
        """A schema has one id, whichever subjects it is registered under; versions count for each subject."""
        self.assertEqual([self.register("a", ORDER), self.register("a", GIFT), self.register("b", GIFT)], [1, 2, 2])
        self.assertEqual(self.ask("GET", "/subjects"), ["a", "b"])
        self.assertEqual(self.ask("GET", "/subjects/a/versions"), [1, 2])
        self.assertEqual(self.ask("GET", "/subjects/b/versions"), [1])
        self.assertEqual(self.ask("GET", "/schemas/ids/2/subjects"), ["a", "b"])
        there = [{"subject": "a", "version": 2}, {"subject": "b", "version": 1}]
        self.assertEqual(self.ask("GET", "/schemas/ids/2/versions"), there)

    def test_repeated_registration(self) -> None:
        """Registering again writes nothing, however the schema is spelled."""
        self.register("a", ORDER)
        written = len(self.registry.log)
        text = json.dumps({"fields": ORDER["fields"], "name": "Order", "type": "record"}, indent=4)
        found = self.ask("POST", "/subjects/a/versions", {"schema": text})
        self.assertEqual((found["id"], found["version"]), (1, 1))
        self.assertEqual(len(self.registry.log), written)

    def test_read_back(self) -> None:
        """A version tells its schema as text, and what it is unless it is Avro."""
        self.register("a", ORDER)
        found = self.ask("GET", "/subjects/a/versions/latest")
        text = json.dumps(ORDER, separators=(",", ":"))
        guid = found.pop("guid")
        self.assertEqual(found, {"subject": "a", "version": 1, "id": 1, "schema": text})
        self.assertEqual(self.ask("GET", "/schemas/ids/1"), {"schema": text, "guid": guid})
        self.assertEqual(self.ask("GET", f"/schemas/guids/{guid}")["id"], 1)
        self.assertEqual(self.ask("GET", "/schemas/ids/1", fetchMaxId=True)["maxId"], 1)
        self.assertEqual(self.ask("GET", "/schemas/ids/1/schema"), ORDER)
        self.assertEqual(self.ask("GET", "/subjects/a/versions/1/schema"), ORDER)
        self.assertEqual(self.ask("POST", "/subjects/a", {"schema": text})["version"], 1)
        self.register("j", {"type": "string"}, "JSON")
        self.assertEqual(self.ask("GET", "/subjects/j/versions/-1")["schemaType"], "JSON")

    def test_incompatible(self) -> None:
        """A version that cannot read the one before is refused, with the reason."""
        self.register("a", ORDER)
        status, found = self.registry.register("a", PRICE)
        self.assertEqual((status, found["error_code"]), (409, 409))
        self.assertIn("reading version 1 with the new schema: Order.price: the field is not written", found["message"])
        self.assertEqual(self.ask("GET", "/subjects/a/versions"), [1])
        self.assertIn("JSON", self.registry.register("a", {"type": "object"}, "JSON")[1]["message"])

    def test_bad_requests(self) -> None:
        """Whatever is wrong is named."""
        where = "/subjects/a/versions"
        for body, code, words in (
            (b"{", 400, "not JSON"),
            ([], 400, "no JSON object"),
            ({}, 42201, "no 'schema'"),
            ({"schema": {}}, 42201, "no 'schema'"),
            ({"schema": "{"}, 42201, "Invalid schema: it is not JSON"),
            ({"schema": '"int"', "schemaType": "THRIFT"}, 42201, "known are JSON, PROTOBUF, AVRO"),
            ({"schema": '"int"', "references": {}}, 42201, "no array"),
            ({"schema": '"int"', "references": [{"name": "x"}]}, 42201, "{name, subject, version}"),
            ({"schema": '"int"', "metadata": {"owner": "me"}}, 422, "'metadata'"),
            ({"schema": '"int"', "id": 7}, 42205, "mode IMPORT"),
        ):
            status, found = self.registry.ask("POST", where, body)
            self.assertEqual((status, found["error_code"]), (int(str(code)[:3]), code), body)
            self.assertIn(words, found["message"])
        for name in ("x" * 250, "a\n", ":.context:a"):
            self.assertEqual(self.refused("POST", f"/subjects/{name}/versions", {"schema": '"int"'}), (422, 42208))
        self.assertEqual(self.registry.log, [])

    def test_full(self) -> None:
        """The registry does not grow without bound."""
        limits = self.registry.limits
        for changed, code in (
            ({"subjects": 1}, ("b", ORDER)),
            ({"versions": 1}, ("a", GIFT)),
            ({"schemas": 1}, ("a", GIFT)),
            ({"stored_bytes": 100}, ("a", GIFT)),
        ):
            self.setUp()
            self.register("a", ORDER)
            self.registry.limits = evolve(limits, **changed)
            status, found = self.registry.register(*code)
            self.assertEqual((status, found["error_code"]), (422, 42205), changed)
            self.assertIn("The registry is full", found["message"])

    def test_not_installed(self) -> None:
        """Without the library that reads a type, its schemas are served and not registered; the answer says why."""
        self.register("a", ORDER)
        real = builtins.__import__

        def missing(name: str, *more: Any) -> Any:
            if name in ("fastavro", "jsonschema"):
                raise ImportError(name)
            return real(name, *more)

        with mock.patch.object(builtins, "__import__", missing):
            for kind in ("AVRO", "JSON"):
                status, found = self.registry.register("b", {"type": "string"}, kind)
                self.assertEqual((status, found["error_code"]), (501, 501))
                self.assertIn("pip install '.[registry]'", found["message"])
            self.ask("GET", "/schemas/ids/1")


class MessageTests(RegistryCase):
    """Messages that Confluent's clients and tests compare."""

    def message(self, *asked: Any, **query: Any) -> str:
        status, found = self.registry.ask(*asked, **query)
        self.assertGreaterEqual(status, 400)
        return str(found["message"])

    def test_error_messages_start_as_confluent_s(self) -> None:
        """The words of that registry come first, then what is wrong here."""
        self.register("a", ORDER)
        self.register("b", GIFT, references=[])
        where = "/subjects/a/versions"
        for pattern, asked in (
            (r"Invalid compatibility level 'odd'; there are NONE, ", ("PUT", "/config", {"compatibility": "odd"})),
            (r"Invalid mode 'odd'; there are ", ("PUT", "/mode/a", {"mode": "odd"})),
            (r"The specified version 'x' is not a valid version id: ", ("GET", f"{where}/x")),
            (r"The specified version '0' is not a valid version id: ", ("DELETE", f"{where}/0")),
            (r"The specified subject ':\.c:a' is not a valid", ("POST", "/subjects/:.c:a/versions", {"schema": "{}"})),
            (r"Subject 'n' not found\.$", ("GET", "/subjects/n/versions")),
            (r"Version 7 not found\.$", ("GET", f"{where}/7")),
            (r"Schema 77 not found$", ("GET", "/schemas/ids/77")),
            (r"Schema not found$", ("POST", "/subjects/a", {"schema": '"int"'})),
            (r"Invalid schema: ", ("POST", where, {"schema": "{"})),
            (r"Invalid schema: ", ("POST", where, {})),
            (r"Invalid schema: ", ("POST", "/subjects/a", {"schema": '"int"', "references": {}})),
        ):
            self.assertRegex(self.message(*asked), f"^{pattern}")
        refused = self.registry.register("a", PRICE)[1]["message"]
        self.assertRegex(
            refused,
            r'^Schema being registered is incompatible with an earlier schema for subject "a", at level BACKWARD',
        )

    def test_deleted(self) -> None:
        """A client compares the whole message to know that a subject was deleted before."""
        self.register("a", ORDER)
        self.register("a", GIFT)
        delete = "DELETE", "/subjects/a"
        self.assertEqual(
            self.message(*delete, permanent=True), "Subject 'a' was not deleted first before being permanently deleted"
        )
        one = "DELETE", "/subjects/a/versions/1"
        self.ask(*one)
        said = "was soft deleted.Set permanent=true to delete permanently"
        self.assertEqual(self.message(*one), f"Subject 'a' Version 1 {said}")
        self.ask(*delete)
        self.assertEqual(self.message(*delete), f"Subject 'a' {said}")


class LookTests(RegistryCase):
    """Missing things, and lists."""

    def test_error_codes_of_missing_things(self) -> None:
        """Each thing that is missing has its own code."""
        self.register("a", ORDER)
        for path, code in (
            ("/subjects/b/versions", 40401),
            ("/subjects/b/versions/1", 40401),
            ("/subjects/a/versions/2", 40402),
            ("/subjects/a/versions/0", 42202),
            ("/subjects/a/versions/one", 42202),
            ("/schemas/ids/2", 40403),
            ("/schemas/ids/one", 404),
            ("/schemas/ids/2/subjects", 40403),
            ("/schemas/guids/x", 40403),
            ("/config/a", 40408),
            ("/mode/a", 40409),
            ("/associations/resources/-/a", 404),
        ):
            self.assertEqual(self.refused("GET", path), (int(str(code)[:3]), code), path)
        self.assertEqual(self.refused("POST", "/subjects/b", {"schema": '"int"'}), (404, 40401))
        self.assertEqual(self.refused("POST", "/subjects/a", {"schema": '"int"'}), (404, 40403))
        self.assertEqual(self.refused("PATCH", "/subjects"), (405, 405))

    def test_lists(self) -> None:
        """Lists have pages, and can be of some subjects only."""
        for name in ("a1", "a2", "b1"):
            self.register(name, ORDER)
        self.register("a1", GIFT)
        self.assertEqual(self.ask("GET", "/subjects", subjectPrefix="a"), ["a1", "a2"])
        self.assertEqual(self.ask("GET", "/subjects", offset=1, limit=1), ["a2"])
        self.assertEqual(self.refused("GET", "/subjects", limit="x"), (400, 400))
        found = self.ask("GET", "/schemas", subjectPrefix="a", latestOnly=True)
        self.assertEqual([(each["subject"], each["version"]) for each in found], [("a1", 2), ("a2", 1)])
        self.registry.limits = evolve(self.registry.limits, page_entries=2)
        self.assertEqual(len(self.ask("GET", "/schemas")), 2)

    def test_about_itself(self) -> None:
        """It says what it takes, and who it is."""
        self.assertEqual(self.ask("GET", "/"), {})
        self.assertEqual(self.ask("GET", "/schemas/types"), ["JSON", "PROTOBUF", "AVRO"])
        self.assertEqual(self.ask("GET", "/v1/metadata/id")["id"], "cluster")
        self.assertEqual(self.ask("GET", "/contexts"), ["."])


class CompatibilityTests(RegistryCase):
    """Levels."""

    def test_levels(self) -> None:
        """Each level asks for what its name says."""
        # With fewer fields one can be read by all; with more, and no defaults, one can read only what has them.
        names = ("a", "b", "c")
        less, some, more = (
            {"type": "record", "name": "R", "fields": [{"name": name, "type": "int"} for name in names[:count]]}
            for count in (1, 2, 3)
        )
        for level, first, second, third, taken in (
            ("NONE", less, more, some, True),
            ("BACKWARD", less, some, more, False),
            ("BACKWARD", more, some, less, True),
            ("FORWARD", less, some, more, True),
            ("FORWARD", more, some, less, False),
            ("FULL", less, some, more, False),
        ):
            self.setUp()
            self.ask("PUT", "/config", {"compatibility": level.lower()})
            self.register("s", first)
            found = [self.registry.register("s", each)[0] == 200 for each in (second, third)]
            self.assertEqual(found, [taken, taken], (level, first))

    def test_transitive(self) -> None:
        """A transitive level looks at all versions, the others at the latest."""

        def optional(*names: str, default: bool) -> Any:
            more = {"default": 0} if default else {}
            return {"type": "record", "name": "R", "fields": [{"name": n, "type": "int", **more} for n in names]}

        steps = [optional(default=True), optional("x", default=True), optional("x", default=False)]
        for level, taken in (("BACKWARD", True), ("BACKWARD_TRANSITIVE", False)):
            self.setUp()
            self.ask("PUT", "/config/s", {"compatibility": level})
            found = [self.registry.register("s", each)[0] == 200 for each in steps]
            self.assertEqual(found, [True, True, taken], level)
            body = {"schema": json.dumps({**steps[2], "doc": "another"})}
            self.assertEqual(self.ask("POST", "/compatibility/subjects/s/versions", body), {"is_compatible": taken})

    def test_compatibility_check(self) -> None:
        """Whether a schema would be taken can be asked without registering it."""
        self.register("a", ORDER)
        body = {"schema": json.dumps(PRICE)}
        where = "/compatibility/subjects/a/versions"
        self.assertEqual(self.ask("POST", f"{where}/latest", body), {"is_compatible": False})
        found = self.ask("POST", f"{where}/1", body, verbose=True)
        self.assertIn("Order.price", found["messages"][0])
        self.assertEqual(self.ask("POST", f"{where}/1", {"schema": json.dumps(GIFT)}, verbose=True)["messages"], [])
        self.assertEqual(self.refused("POST", f"{where}/2", body), (404, 40402))
        self.assertEqual(self.refused("POST", where, {"schema": "{"}), (422, 42201))
        self.assertFalse(self.ask("POST", where, {"schema": "{"}, verbose=True)["is_compatible"])
        self.assertTrue(self.ask("POST", "/compatibility/subjects/new/versions/latest", body)["is_compatible"])
        self.assertEqual(self.ask("GET", "/subjects"), ["a"])

    def test_config(self) -> None:
        """A subject's level wins over everybody's, until it is deleted."""
        self.assertEqual(self.ask("GET", "/config"), {"compatibilityLevel": "BACKWARD"})
        self.assertEqual(self.ask("PUT", "/config", {"compatibility": "FULL"}), {"compatibility": "FULL"})
        self.assertEqual(self.ask("PUT", "/config/a", {"compatibility": "NONE"}), {"compatibility": "NONE"})
        self.assertEqual(self.ask("GET", "/config/a"), {"compatibilityLevel": "NONE"})
        self.assertEqual(self.ask("GET", "/config/b", defaultToGlobal=True), {"compatibilityLevel": "FULL"})
        self.assertEqual(self.ask("DELETE", "/config/a"), {"compatibilityLevel": "NONE"})
        self.assertEqual(self.refused("DELETE", "/config/a"), (404, 40408))
        self.assertEqual(self.ask("DELETE", "/config"), {"compatibilityLevel": "FULL"})
        self.assertEqual(self.ask("GET", "/config"), {"compatibilityLevel": "BACKWARD"})
        self.assertEqual(self.refused("PUT", "/config", {"compatibility": "SIDEWAYS"}), (422, 42203))
        self.assertEqual(self.refused("PUT", "/config", {"compatibility": "FULL", "alias": "b"}), (422, 422))

    def test_modes(self) -> None:
        """Read-only subjects refuse changes; registering an existing schema is no change."""
        self.register("a", ORDER)
        self.assertEqual(self.ask("GET", "/mode"), {"mode": "READWRITE"})
        self.assertEqual(self.ask("PUT", "/mode/a", {"mode": "READONLY"}), {"mode": "READONLY"})
        self.assertEqual(self.register("a", ORDER), 1)
        self.assertEqual(self.registry.register("a", GIFT)[1]["error_code"], 42205)
        self.assertEqual(self.refused("DELETE", "/subjects/a"), (422, 42205))
        self.assertEqual(self.refused("PUT", "/config/a", {"compatibility": "NONE"}), (422, 42205))
        self.register("b", GIFT)
        self.assertEqual(self.ask("DELETE", "/mode/a"), {"mode": "READONLY"})
        self.assertEqual(self.refused("DELETE", "/mode/a"), (404, 40409))
        self.ask("PUT", "/mode/a", {"mode": "READWRITE"})
        self.ask("PUT", "/mode", {"mode": "READONLY"})
        self.register("a", GIFT)
        self.ask("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})
        self.assertEqual(self.refused("DELETE", "/subjects/a"), (422, 42205))
        self.assertEqual(self.refused("PUT", "/mode", {"mode": "SLEEPING"}), (422, 42204))

    def test_import(self) -> None:
        """Imported schemas keep their ids and versions."""
        self.register("old", PRICE)
        self.assertEqual(self.refused("PUT", "/mode", {"mode": "IMPORT"}), (422, 42205))
        self.ask("PUT", "/mode/new", {"mode": "IMPORT"})
        self.assertEqual(self.register("new", ORDER, id=70, version=7), 70)
        self.assertEqual(self.ask("GET", "/subjects/new/versions"), [7])
        for more in ({"id": 70}, {"id": 1}):
            self.assertEqual(self.registry.register("new", GIFT, **more)[1]["error_code"], 42207)
        self.assertEqual(self.registry.register("new", ORDER, id=71)[1]["error_code"], 42207)
        self.assertEqual((self.register("new", ORDER, id=70), self.register("new", ORDER)), (70, 70))
        self.ask("PUT", "/mode/new", {"mode": "READWRITE"})
        self.assertEqual(self.register("new", GIFT), 71)

    def test_a_version_that_is_deleted_meanwhile(self) -> None:
        """What pauses goes on with what it has found: others may delete that for good in between."""
        proto = 'syntax = "proto3"; message M { string a = 1; }'
        body = {"schema": json.dumps(GIFT)}
        self.register("s", ORDER)
        self.ask("POST", "/subjects/p/versions", {"schema": proto, "schemaType": "PROTOBUF"})
        for subject, method, path, query, sent in (
            ("s", "POST", "compatibility/subjects/s/versions/1", {}, body),
            ("p", "GET", "subjects/p/versions/1", {"format": "serialized"}, None),
        ):
            data = b"" if sent is None else json.dumps(sent).encode()
            request = RegistryRequest(method, tuple(path.split("/")), query, data)
            steps = answer(request, self.registry.state, self.registry.limits, "cluster")
            if (check := next(steps)) is not None:
                check()
            self.ask("DELETE", f"/subjects/{subject}")
            self.ask("DELETE", f"/subjects/{subject}", permanent=True)
            self.assertEqual(run(steps).answer.status, 200, path)

    def test_the_highest_numbers(self) -> None:
        """Ids and versions end with those that clients have room for: none is given that could not be read back."""
        self.ask("PUT", "/mode/new", {"mode": "IMPORT"})
        self.assertEqual(self.register("new", ORDER, id=7, version=2**31 - 1), 7)
        status, found = self.registry.register("new", GIFT)
        self.assertEqual((status, found["error_code"]), (422, 42205))
        self.assertIn("no version 2147483648", found["message"])
        self.assertEqual(self.register("other", ORDER), 7)
        self.ask("PUT", "/mode/last", {"mode": "IMPORT"})
        self.assertEqual(self.register("last", PRICE, id=2**31 - 1), 2**31 - 1)
        status, found = self.registry.register("other", GIFT)
        self.assertEqual((status, found["error_code"]), (422, 42205))
        self.assertIn("no id 2147483648", found["message"])
        self.assertEqual(self.ask("GET", "/subjects/other/versions"), [1])


class ReferenceTests(RegistryCase):
    """Schemas that refer to others."""

    def test_avro(self) -> None:
        """A type of another subject's schema is known by its name, and so are those beneath it."""
        self.register("money", {"type": "record", "name": "x.Money", "fields": [{"name": "cents", "type": "long"}]})
        line = {"type": "record", "name": "x.Line", "fields": [{"name": "price", "type": "Money"}]}
        money = {"name": "x.Money", "subject": "money", "version": 1}
        self.assertEqual(self.registry.register("line", line)[1]["error_code"], 42201)
        self.register("line", line, references=[money])
        self.assertEqual(self.ask("GET", "/schemas/ids/2")["references"], [money])
        order = {"type": "record", "name": "x.Order", "fields": [{"name": "lines", "type": ["Line", "Money"]}]}
        self.register("order", order, references=[{"name": "x.Line", "subject": "line", "version": -1}])
        self.assertEqual(self.ask("GET", "/subjects/money/versions/1/referencedby"), [2])
        self.assertEqual(self.refused("DELETE", "/subjects/money"), (422, 42206))
        self.assertEqual(self.refused("DELETE", "/subjects/money/versions/1"), (422, 42206))
        for name in ("order", "line", "money"):
            self.ask("DELETE", f"/subjects/{name}")
        self.assertEqual(self.refused("DELETE", "/subjects/money", permanent=True), (422, 42206))

    def test_used_by_a_subject_that_stays(self) -> None:
        """A schema of two subjects that refers to one of them keeps this from being deleted."""
        self.ask("PUT", "/config", {"compatibility": "NONE"})
        self.register("money", {"type": "record", "name": "x.Money", "fields": [{"name": "cents", "type": "long"}]})
        line = {"type": "record", "name": "x.Line", "fields": [{"name": "price", "type": "Money"}]}
        reference = {"name": "x.Money", "subject": "money", "version": 1}
        for subject in ("money", "line"):
            self.register(subject, line, references=[reference])
        self.assertEqual(self.refused("DELETE", "/subjects/money"), (422, 42206))
        self.ask("DELETE", "/subjects/line")
        self.assertEqual(self.ask("DELETE", "/subjects/money"), [1, 2])
        self.assertEqual(self.refused("DELETE", "/subjects/money", permanent=True), (422, 42206))
        self.ask("DELETE", "/subjects/line", permanent=True)
        self.assertEqual(self.ask("DELETE", "/subjects/money", permanent=True), [1, 2])

    def test_compatible_through_references(self) -> None:
        """Changed references count: the same text may refer to another version."""
        money = [{"type": "record", "name": "Money", "fields": [{"name": name, "type": "long"}]} for name in ("c", "d")]
        self.ask("PUT", "/config/money", {"compatibility": "NONE"})
        self.register("money", money[0])
        self.register("money", money[1])
        line = {"type": "record", "name": "Line", "fields": [{"name": "price", "type": "Money"}]}
        self.register("line", line, references=[{"name": "Money", "subject": "money", "version": 1}])
        found = self.registry.register("line", line, references=[{"name": "Money", "subject": "money", "version": 2}])
        self.assertEqual(found[0], 409)
        self.assertIn("Line.price.d", found[1]["message"])

    def test_json(self) -> None:
        """A $ref means the schema of the reference with that name."""
        self.register("money", {"type": "integer"}, "JSON")
        line = {"properties": {"price": {"$ref": "money.json"}}}
        self.assertEqual(self.registry.register("line", line, "JSON")[0], 422)
        reference = {"name": "money.json", "subject": "money", "version": 1}
        self.register("line", line, "JSON", references=[reference])
        found = self.registry.register("line", {"properties": {"price": {"type": "string"}}}, "JSON")
        self.assertIn("$.price", found[1]["message"])

    def test_too_many(self) -> None:
        """How much a schema may rest on is bounded."""
        self.registry.limits = evolve(self.registry.limits, references=2)
        for index, name in enumerate("ABC"):
            fields = [{"name": "x", "type": "ABC"[index - 1]}] if index else []
            references = [{"name": "n", "subject": "ABC"[index - 1], "version": 1}] if index else []
            self.register(name, {"type": "record", "name": name, "fields": fields}, references=references)
        fields = [{"name": "x", "type": "C"}]
        reference = {"name": "n", "subject": "C", "version": 1}
        found = self.registry.register("D", {"type": "record", "name": "D", "fields": fields}, references=[reference])
        self.assertIn("more than 2 schemas", found[1]["message"])


class DeleteTests(RegistryCase):
    """In two steps."""

    def test_subject(self) -> None:
        """First it is out of sight, then it is gone."""
        self.register("a", ORDER)
        self.register("a", GIFT)
        self.ask("PUT", "/config/a", {"compatibility": "NONE"})
        self.assertEqual(self.refused("DELETE", "/subjects/b"), (404, 40401))
        self.assertEqual(self.refused("DELETE", "/subjects/a", permanent=True), (404, 40405))
        self.assertEqual(self.ask("DELETE", "/subjects/a"), [1, 2])
        self.assertEqual(self.refused("GET", "/subjects/a/versions"), (404, 40401))
        self.assertEqual(self.refused("GET", "/config/a"), (404, 40408))
        self.assertEqual(self.ask("GET", "/subjects"), [])
        self.assertEqual(self.ask("GET", "/subjects", deleted=True), ["a"])
        self.assertEqual(self.ask("GET", "/subjects", deletedOnly=True), ["a"])
        self.assertEqual(self.ask("GET", "/subjects/a/versions", deleted=True), [1, 2])
        self.assertTrue(self.ask("GET", "/subjects/a/versions/1", deleted=True)["deleted"])
        self.ask("GET", "/schemas/ids/1")
        self.assertEqual(self.ask("GET", "/schemas/ids/1/subjects"), [])
        self.assertEqual(self.refused("DELETE", "/subjects/a"), (404, 40404))
        self.assertEqual(self.ask("DELETE", "/subjects/a", permanent=True), [1, 2])
        self.assertEqual(self.refused("GET", "/schemas/ids/1"), (404, 40403))
        self.assertEqual(self.ask("GET", "/subjects", deleted=True), [])

    def test_version(self) -> None:
        """One version can be deleted; the next one is compared with what is left."""
        self.register("a", ORDER)
        self.register("a", GIFT)
        self.assertEqual(self.refused("DELETE", "/subjects/a/versions/1", permanent=True), (404, 40407))
        self.assertEqual(self.ask("DELETE", "/subjects/a/versions/latest"), 2)
        self.assertEqual(self.refused("DELETE", "/subjects/a/versions/2"), (404, 40406))
        self.assertEqual(self.refused("DELETE", "/subjects/a/versions/9"), (404, 40402))
        self.assertEqual(self.ask("GET", "/subjects/a/versions/latest")["version"], 1)
        self.assertEqual(self.register("a", GIFT), 2)
        self.assertEqual(self.ask("GET", "/subjects/a/versions"), [1, 3])
        self.assertEqual(self.ask("DELETE", "/subjects/a/versions/2", permanent=True), 2)
        self.ask("GET", "/schemas/ids/2")

    def test_ids_are_never_reused(self) -> None:
        """Also when what had them is deleted for good, and compacted away."""
        self.register("a", ORDER)
        self.register("b", GIFT)
        for permanent in (False, True):
            self.ask("DELETE", "/subjects/b", permanent=permanent)
        self.registry = self.registry.reread(compacted=True)
        self.assertEqual(self.refused("GET", "/schemas/ids/2"), (404, 40403))
        self.assertEqual(self.register("b", GIFT), 3)
