"""Tests of :mod:`logbus.admin.configs`: changes of settings of a whole broker over HTTP."""

from __future__ import annotations

from tests.admin.broker_kit import HttpBrokerCase

TOPIC = "/api/v1/configs/topics/t"
BROKER = "/api/v1/configs/brokers/0"


class TopicConfigTests(HttpBrokerCase):
    """Settings of topics."""

    def value(self, target: str = TOPIC, name: str = "retention.ms") -> tuple[str, str]:
        (entry,) = [entry for entry in self.http.get(target)["items"] if entry["name"] == name]
        return entry["value"], entry["source"]

    def test_two_people(self) -> None:
        """Of two people who change the same thing, the second is told, and sees what it is now."""
        seen = self.http.ask("GET", TOPIC).headers["ETag"]
        first = self.http.ask("PATCH", TOPIC, {"retention.ms": 5000}, {"If-Match": seen})
        self.assertEqual(first.status, 200)
        second = self.http.ask("PATCH", TOPIC, {"retention.ms": 9000}, {"If-Match": seen})
        self.assertEqual(second.status, 412)
        self.assertEqual(second.headers["ETag"], first.headers["ETag"])
        self.assertIn("If-Match: retention.ms.", second.json["detail"])
        self.assertFalse(second.json["retriable"])
        unquoted = self.http.ask("PATCH", TOPIC, {"retention.ms": 9000}, {"If-Match": seen.strip('"')})
        self.assertEqual(unquoted.status, 400)
        self.assertIn("If-Match", unquoted.json["detail"])
        self.assertEqual(self.value(), ("5000", "topic"))
        again = self.http.ask("PATCH", TOPIC, {"retention.ms": 9000}, {"If-Match": f'"x", {second.headers["ETag"]}'})
        self.assertEqual(again.status, 200)
        self.assertEqual(self.http.ask("PATCH", TOPIC, {"retention.ms": None}, {"If-Match": "*"}).status, 200)
        self.assertEqual(self.value()[1], "default")

    def test_a_new_topic_of_the_name(self) -> None:
        """A tag is that of one topic, and not of another one of its name."""
        seen = self.http.ask("GET", TOPIC).headers["ETag"]
        self.http.ask("DELETE", "/api/v1/topics/t?confirm=t")
        created = self.http.ask("POST", "/api/v1/topics", {"name": "t"})
        self.assertEqual((created.status, created.headers["Location"]), (201, "/api/v1/topics/t"))
        self.assertEqual(self.http.ask("PATCH", TOPIC, {"retention.ms": 1}, {"If-Match": seen}).status, 412)

    def test_validate_only(self) -> None:
        """A change can be tried."""
        target = TOPIC + "?validate_only=true"
        self.assertEqual(self.http.ask("PATCH", target, {"retention.ms": 5000}).status, 200)
        self.assertEqual(self.value()[1], "default")
        answered = self.http.ask("PATCH", target, {"retention.ms": "soon"})
        self.assertEqual((answered.status, answered.json["error"]), (400, "INVALID_CONFIG"))
        self.assertIn("retention.ms", answered.json["detail"])

    def test_two_people_and_brokers(self) -> None:
        """The second who changes settings of a broker is told; those of all brokers are another thing."""
        name, all_brokers = "log.retention.ms", "/api/v1/configs/brokers"
        for target, other in ((BROKER, all_brokers), (all_brokers, BROKER)):
            tag = {"If-Match": self.http.ask("GET", target).headers["ETag"]}
            self.assertEqual(self.http.ask("PATCH", other, {"log.segment.bytes": 1 << 20}).status, 200)
            tried = self.http.ask("PATCH", f"{target}?validate_only=true", {name: 700_000}, tag)
            self.assertEqual(tried.status, 200, tried.body)
            self.assertEqual(self.http.ask("PATCH", target, {name: 700_000}, tag).status, 200)
            second = self.http.ask("PATCH", target, {name: 800_000}, tag)
            self.assertEqual(second.status, 412)
            self.assertIn(f"If-Match: {name}.", second.json["detail"])
            self.assertEqual(second.headers["ETag"], self.http.ask("GET", target).headers["ETag"])
        self.assertEqual({entry["source"] for entry in self.http.get(all_brokers)["items"]}, {"cluster"})

    def test_broker(self) -> None:
        """Dynamic settings of a broker, and of all, are changed, tried and reset."""
        name = "log.retention.ms"
        body = {name: 700_000}
        self.assertEqual(self.http.ask("PATCH", BROKER + "?validate_only=true", body).json["validate_only"], True)
        self.assertNotEqual(self.value(BROKER, name)[1], "broker")
        self.assertEqual(self.http.ask("PATCH", BROKER, body).status, 200)
        self.assertEqual(self.value(BROKER, name), ("700000", "broker"))
        self.assertEqual(self.http.ask("PATCH", BROKER, {name: None}).status, 200)
        self.assertEqual(self.http.ask("PATCH", "/api/v1/configs/brokers", {name: 800_000}).status, 200)
        self.assertEqual(self.value(BROKER, name), ("800000", "cluster"))

    def test_what_is_wrong(self) -> None:
        """Errors name the key, or the broker."""
        for target, body, status, told in [
            (BROKER, {"log.dirs": "/x"}, 400, "log.dirs"),
            (BROKER, {"no.such.key": "x"}, 400, "no.such.key"),
            ("/api/v1/configs/brokers/7", {}, 404, "no live broker 7"),
        ]:
            answered = self.http.ask("PATCH", target, body)
            self.assertEqual(answered.status, status, answered.body)
            self.assertIn(told, answered.json["detail"])
