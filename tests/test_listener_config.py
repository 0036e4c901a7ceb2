"""Tests of :mod:`logbus.listener_config`."""

from __future__ import annotations

from unittest import TestCase

from logbus.config import ConfigView
from logbus.errors import ConfigError
from logbus.ilogbus import Listener
from logbus.listener_config import (
    is_local,
    listener_sasl_config,
    may_need_tls,
    refuse_keys_of_none,
    require_kafka,
    resolve_listeners,
)

KAFKA = Listener("kafka", "kafka", "tcp:9092:interface=127.0.0.1")
ADMIN = Listener("admin", "admin", "tcp:8080:interface=127.0.0.1")


def resolved(*listen: str, **settings: str) -> list[Listener]:
    """The listeners of a broker with these ``--listen`` and these settings."""
    config = ConfigView.load({name.replace("_", "."): text for name, text in settings.items()})
    return resolve_listeners(listen, (), config)


def spelled(listeners: list[Listener]) -> list[str]:
    return [f"{at.name}={at.protocol}:{at.endpoint}" for at in listeners]


class ListenerTests(TestCase):
    """``--listen``, ``listeners`` and ``admin.listeners``."""

    def test_defaults(self) -> None:
        """A broker that is told nothing has both default listeners."""
        self.assertEqual(resolved(), [KAFKA, ADMIN])

    def test_keys(self) -> None:
        """Each key replaces the default of its own protocol."""
        self.assertEqual(
            spelled(resolved(listeners="PLAINTEXT://127.0.0.1:9192")),
            ["PLAINTEXT=kafka:tcp:9192:interface=127.0.0.1", "admin=admin:tcp:8080:interface=127.0.0.1"],
        )
        self.assertEqual(
            spelled(resolved(admin_listeners="http://[::1]:8081, HTTP://:0")),
            [
                "kafka=kafka:tcp:9092:interface=127.0.0.1",
                r"admin=admin:tcp:8081:interface=\:\:1",
                "admin-2=admin:tcp:0:interface=",
            ],
        )
        self.assertEqual(resolved(admin_listeners=""), [KAFKA])

    def test_options_and_keys(self) -> None:
        """A ``--listen`` replaces the listener of its name, or is one more."""
        both = {
            "listeners": "PLAINTEXT://127.0.0.1:9192,SASL_PLAINTEXT://:9193",
            "admin_listeners": "http://127.0.0.1:8081",
        }
        plain, inside = "PLAINTEXT=kafka:tcp:9192:interface=127.0.0.1", "SASL_PLAINTEXT=kafka:tcp:9193:interface="
        admin = "admin=admin:tcp:8081:interface=127.0.0.1"
        for listen, found in (
            ("admin:tcp:8090", [plain, inside, "admin=admin:tcp:8090"]),
            ("plaintext=kafka:tcp:9292", ["plaintext=kafka:tcp:9292", inside, admin]),
            ("kafka:tcp:9292", [plain, inside, "kafka=kafka:tcp:9292", admin]),
            ("other=admin:tcp:8090", [plain, inside, admin, "other=admin:tcp:8090"]),
            ("lines:tcp:1514", [plain, inside, admin, "lines=lines:tcp:1514"]),
        ):
            with self.subTest(listen):
                self.assertEqual(spelled(resolved(listen, **both)), found)

    def test_options_alone(self) -> None:
        """Without keys there is always a Kafka listener, and HTTP by default if there is no ``--listen``."""
        self.assertEqual(spelled(resolved("kafka:tcp:9292")), ["kafka=kafka:tcp:9292"])
        kafka = "kafka=kafka:tcp:9092:interface=127.0.0.1"
        self.assertEqual(spelled(resolved("admin:tcp:8090")), [kafka, "admin=admin:tcp:8090"])
        self.assertEqual(spelled(resolved("lines:tcp:1514")), [kafka, "lines=lines:tcp:1514"])

    def test_ports(self) -> None:
        """``--port`` and ``--admin-port`` are those of the first listeners of their keys."""

        def found(listen: tuple[str, ...] = (), **settings: str) -> list[str]:
            config = ConfigView.load({name.replace("_", "."): text for name, text in settings.items()})
            return spelled(resolve_listeners(listen, (), config, {"kafka": 9292, "admin": 0}))

        self.assertEqual(found(), ["kafka=kafka:tcp:9292:interface=127.0.0.1", "admin=admin:tcp:0:interface=127.0.0.1"])
        self.assertEqual(
            found(listeners="PLAINTEXT://:1,SSL://:2", admin_listeners="https://:3"),
            ["PLAINTEXT=kafka:tcp:9292:interface=", "SSL=kafka:tcp:2:interface=", "admin=admin:tcp:0:interface="],
        )
        self.assertEqual(
            found(("edge=kafka:tcp:1",), admin_listeners="")[1:],
            ["edge=kafka:tcp:1", "admin=admin:tcp:0:interface=127.0.0.1"],
        )
        with self.assertRaisesRegex(ConfigError, "--port 9292 and --listen both say where kafka listens"):
            found(("kafka:tcp:1",))

    def test_no_kafka(self) -> None:
        """A broker without a Kafka listener is refused."""
        require_kafka([ADMIN, KAFKA])
        with self.assertRaisesRegex(ConfigError, "no listener speaks the Kafka protocol: add --listen kafka:tcp:9092"):
            require_kafka([ADMIN])

    def test_keys_of_a_listener(self) -> None:
        """Those of one that there is not are refused: a misspelt name would leave unprotected what it is to protect."""

        def check(*names: str, controllers: str = "") -> None:
            text = {f"listener.name.{name}.ssl.client.auth": "required" for name in names}
            protocols = "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT"
            text |= {"listeners": "CLIENTS://:1,BROKERS://:2", "listener.security.protocol.map": protocols}
            config = ConfigView.load(text)
            refuse_keys_of_none(config, resolve_listeners((), (), config), controllers)

        check("clients", "admin")
        # A file of a broker of Kafka's has keys of listeners that only its controllers have.
        check("controller", "clients", controllers="OTHER, CONTROLLER")
        for wrong in ("clents", "CLIENTS"):
            why = f"listener.name.{wrong}.ssl.client.auth: there is no listener {wrong}; .*: clients, brokers, admin"
            with self.assertRaisesRegex(ConfigError, why):
                check(wrong)

    def test_one_name_twice(self) -> None:
        """Two listeners of one name are refused, wherever they come from."""
        with self.assertRaisesRegex(ConfigError, "two listeners are named PLAINTEXT"):
            resolved("PLAINTEXT=lines:tcp:1", listeners="PLAINTEXT://:0")


class SecurityProtocolTests(TestCase):
    """What listeners speak, by the map, by their endpoints, and by ``https``."""

    def protocols(self, *listen: str, **settings: str) -> dict[str, str]:
        return {at.name: at.security_protocol for at in resolved(*listen, **settings)}

    def test_by_the_map(self) -> None:
        """The map says what a name means, in any case; by itself each protocol's name means the protocol."""
        found = self.protocols(
            listeners="SSL://:9093,INSIDE://:9094,SASL_SSL://:9095",
            listener_security_protocol_map="INSIDE:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
        )
        self.assertEqual(found, {"SSL": "SSL", "INSIDE": "PLAINTEXT", "SASL_SSL": "SASL_SSL", "admin": "PLAINTEXT"})
        named = self.protocols("edge=kafka:tcp:9093", listener_security_protocol_map="EDGE:SSL,PLAINTEXT:PLAINTEXT")
        self.assertEqual(named, {"edge": "SSL"})

    def test_by_the_endpoint(self) -> None:
        """Other listeners have TLS if their endpoints do."""
        found = self.protocols("secure=kafka:ssl:9093:privateKey=k", "kafka:tcp:9092", "SASL_SSL=kafka:ssl:9094")
        self.assertEqual(found, {"secure": "SSL", "kafka": "PLAINTEXT", "SASL_SSL": "SASL_SSL"})

    def test_admin(self) -> None:
        """``https`` in ``admin.listeners`` is TLS."""
        found = self.protocols(admin_listeners="http://:8080,https://:8443")
        self.assertEqual(found, {"kafka": "PLAINTEXT", "admin": "PLAINTEXT", "admin-2": "SSL"})

    def test_contradictions(self) -> None:
        """The map and the endpoint must agree, and TLS must be possible there."""
        for listen, words in (
            (
                "PLAINTEXT=kafka:ssl:9093",
                "listener PLAINTEXT: its endpoint is ssl:…, but .* says PLAINTEXT; map it to SSL,",
            ),
            ("SASL_PLAINTEXT=kafka:ssl:9093", "map it to SASL_SSL, or use a tcp: endpoint"),
            ("SSL=kafka:unix:/tmp/x", "listener SSL: SSL needs an endpoint that begins with tcp:, tcp6: or ssl:"),
        ):
            with self.subTest(listen), self.assertRaisesRegex(ConfigError, words):
                resolved(listen)


class MayNeedTlsTests(TestCase):
    """Whether TLS may be needed."""

    def needed(self, *listen: str, **settings: str) -> bool:
        config = ConfigView.load({name.replace("_", "."): text for name, text in settings.items()})
        return may_need_tls(config, resolve_listeners(listen, (), config))

    def test_without(self) -> None:
        """Neither plain listeners need it, nor logins."""
        self.assertFalse(self.needed())
        self.assertFalse(self.needed("kafka:unix:/tmp/socket", "admin:tcp6:8080"))
        self.assertFalse(self.needed(listener_security_protocol_map="PLAINTEXT:PLAINTEXT,KAFKA:SASL_PLAINTEXT"))

    def test_listeners(self) -> None:
        """Listeners with TLS need it, and those of plugins, endpoints or protocols, may."""
        for listen in ("kafka:ssl:9092:privateKey=key.pem", "kafka:tls:9092", "chat:tcp:9092"):
            self.assertTrue(self.needed(listen), listen)
        self.assertTrue(self.needed(listener_security_protocol_map="PLAINTEXT:PLAINTEXT,KAFKA:SASL_SSL"))

    def test_keys_of_tokens(self) -> None:
        """The keys of tokens are fetched over https, for one listener or all."""
        key, url = "sasl.oauthbearer.jwks.endpoint.url", "https://localhost/keys"
        self.assertTrue(self.needed(**{key: url}))
        self.assertTrue(self.needed(**{f"listener.name.kafka.{key}": url}))

    def test_plugins(self) -> None:
        """A plugin that deletes may send elsewhere first."""
        self.assertTrue(self.needed(log_delete_policy="archive"))


class SaslTests(TestCase):
    """Listeners whose clients log in."""

    def test_local_endpoints(self) -> None:
        """Only what others cannot reach is local."""
        for endpoint in (
            r"tcp:0:interface=127.0.0.1",
            r"tcp6:0:interface=\:\:1",
            "tcp:0:interface=localhost",
            "unix:/s",
        ):
            self.assertTrue(is_local(endpoint), endpoint)
        for endpoint in ("tcp:0", "tcp:0:interface=", r"tcp:0:interface=\:\:", "tcp:0:interface=10.0.0.1:backlog=127"):
            self.assertFalse(is_local(endpoint), endpoint)

    def test_only_kafka(self) -> None:
        """No other protocol has SASL: its clients would get in without."""
        config = ConfigView.load()
        self.assertIsNone(listener_sasl_config(config, KAFKA))
        with self.assertRaisesRegex(ConfigError, "listener x: SASL_SSL is for the protocol kafka"):
            listener_sasl_config(config, Listener("x", "admin", "tcp:0", None, "SASL_SSL"))
