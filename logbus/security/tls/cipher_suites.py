"""
The cipher suites that listeners may use: those with forward secrecy, by OpenSSL's names and by those of the RFCs. Pure.

A suite without forward secrecy lets whoever gets the key later read all that was recorded before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

from logbus.errors import ConfigError

TLS13 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256", "TLS_AES_128_CCM_SHA256")

_AEAD = ("AES256-GCM-SHA384", "CHACHA20-POLY1305", "AES128-GCM-SHA256")
_CBC = ("AES256-SHA384", "AES128-SHA256", "AES256-SHA", "AES128-SHA")

DEFAULT_TLS12 = tuple(f"ECDHE-{by}-{suite}" for suite in _AEAD for by in ("ECDSA", "RSA"))
_ALL_TLS12 = DEFAULT_TLS12 + tuple(f"ECDHE-{by}-{suite}" for suite in _CBC for by in ("ECDSA", "RSA"))


def _rfc_name(name: str) -> str:
    """``TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256`` for ``ECDHE-RSA-AES128-SHA256``."""
    exchange, by, suite = name.split("-", 2)
    if suite.startswith("CHACHA20"):
        cipher = "CHACHA20_POLY1305_SHA256"
    else:
        bits, rest = suite[3:6], suite[7:]
        cipher = f"AES_{bits}_" + (rest.replace("-", "_") if rest.startswith("GCM") else f"CBC_{rest}")
    return f"TLS_{exchange}_{by}_WITH_{cipher}"


_TLS12 = {name: name for name in _ALL_TLS12} | {_rfc_name(name): name for name in _ALL_TLS12}


class CipherSuites(NamedTuple):
    """
    The suites of a listener, by OpenSSL's names.

    :ivar tls12: of TLS 1.2; none: TLS 1.2 is not spoken.
    :ivar tls13: of TLS 1.3; none: TLS 1.3 is not spoken.
    """

    tls12: tuple[str, ...] = DEFAULT_TLS12
    tls13: tuple[str, ...] = TLS13

    @classmethod
    def parse(cls, names: Iterable[str], key: str = "ssl.cipher.suites") -> Self:
        """
        Return the suites with these names; all but the old ones with CBC if there are none.

        :param key: the key's name, for errors.
        :raises ConfigError: names suites without forward secrecy, or unknown ones.
        """
        names = list(names)
        if not names:
            return cls()
        wrong = [name for name in names if name not in _TLS12 and name not in TLS13]
        if wrong:
            raise ConfigError(
                f"{key}: {', '.join(wrong)}: not a suite with forward secrecy; accepted: "
                f"{', '.join((*TLS13, *_ALL_TLS12))}"
            )
        return cls(
            tuple(dict.fromkeys(_TLS12[name] for name in names if name in _TLS12)),
            tuple(name for name in TLS13 if name in names),
        )
