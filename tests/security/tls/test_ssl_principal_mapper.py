"""Tests of :mod:`logbus.security.tls.ssl_principal_mapper`."""

from __future__ import annotations

from unittest import TestCase

from logbus.errors import ConfigError
from logbus.security.tls.ssl_principal_mapper import NoMatchingRule, SslPrincipalMapper

KIP_371 = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,DEFAULT"
)


class MapperTests(TestCase):
    def test_rules_of_the_kip(self) -> None:
        """The first rule that matches the whole name gives the user."""
        mapper = SslPrincipalMapper.parse(KIP_371)
        for name, user in (
            ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
            ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
            ("cn=Duke.X,OU=JavaSoft,O=Sun Microsystems", "DUKE.X"),
            ("O=Sun Microsystems", "O=Sun Microsystems"),
        ):
            with self.subTest(name):
                self.assertEqual(mapper.user(name), user)

    def test_default(self) -> None:
        """Without rules a user is called by the whole name."""
        for rules in ("DEFAULT", "", " DEFAULT "):
            self.assertEqual(SslPrincipalMapper.parse(rules).user("CN=a,O=b"), "CN=a,O=b")

    def test_references(self) -> None:
        """``$0`` is the whole name; a group that is not there stays text; escapes are taken off."""
        mapper = SslPrincipalMapper.parse(r"RULE:^CN=(\w+)(-x)?$/$1:$2:$9:\$1\/$0/")
        self.assertEqual(mapper.user("CN=a"), "a::$9:$1/CN=a")

    def test_no_user(self) -> None:
        """Whom no rule names, or names with nothing, has no access."""
        mapper = SslPrincipalMapper.parse("RULE:^CN=a(.*)$/$1/")
        for name, words in (("CN=b", "applies to 'CN=b'"), ("CN=a", "an empty name")):
            with self.assertRaisesRegex(NoMatchingRule, words):
                mapper.user(name)

    def test_wrong_rules(self) -> None:
        """A rule that is wrong is named at the start."""
        for rules, words in (
            ("RULE:(/x/", r"k: '\(' is not an expression of RE2: missing \)"),
            ("RULE:a(?=b)/x/", "is not an expression of RE2"),
            ("RULE:a/x/LU", "'U' follows a rule; expected"),
            ("RULE:a/b", "'RULE:a/b' is not a rule; expected DEFAULT or RULE:pattern/replacement/"),
            ("DEFAULT,nonsense", "'nonsense' is not a rule"),
        ):
            with self.subTest(rules), self.assertRaisesRegex(ConfigError, words):
                SslPrincipalMapper.parse(rules, "k")

    def test_slow_expression(self) -> None:
        """An expression that backtracks for ages elsewhere takes no time."""
        mapper = SslPrincipalMapper.parse("RULE:^CN=(a+)+$/$1/,DEFAULT")
        name = "CN=" + "a" * 5000 + "b"
        self.assertEqual(mapper.user(name), name)
