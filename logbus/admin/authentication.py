"""
Finds out who sends a request: by a password, a token or a certificate (RFC 7617, RFC 6750).

The users are those of SASL: of SCRAM and PLAIN for passwords, of OAUTHBEARER for tokens. A login that fails is answered
after a delay that does not tell why, and passwords are verified in threads, a few at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from logbus.admin.address_share import address_share
from logbus.admin.authorization_header import PasswordCredentials, TokenCredentials, read_authorization
from logbus.admin.problem_details import HttpProblem
from logbus.admin.verified_passwords import VerifiedPasswords
from logbus.metrics import metric
from logbus.net.connection_limits import WarningLimiter
from logbus.net.request_context import ANONYMOUS
from logbus.security.sasl.mechanism import Login, SaslAuthenticationError, shown
from logbus.security.sasl.plain import Verifier
from logbus.security.sasl.scram_credential import ScramCredential
from logbus.security.sasl.scram_server import ScramAccounts, UnknownUsers
from logbus.security.tls.ssl_principal_mapper import NoMatchingRule

if TYPE_CHECKING:
    from logbus.security.sasl.oauthbearer import TokenValidator

REALM = "logbus"
THREADS = 2
"""Passwords verified at a time."""
MOST_WAITING, MOST_WAITING_OF_ADDRESS = 64, 16
"""Passwords that are being verified or wait for it, of all clients and of one address."""


@frozen
class HttpLogins:
    """
    The logins that a listener's clients may use.

    :ivar required: whether they must.
    :ivar scram: the mechanisms of SCRAM whose users may.
    :ivar plain: checks the passwords of PLAIN; None: it has no users.
    :ivar tokens: checks tokens; None: they are not accepted.
    """

    required: bool = False
    scram: tuple[str, ...] = ()
    plain: Verifier | None = field(default=None, repr=False)
    tokens: TokenValidator | None = field(default=None, repr=False)

    @property
    def challenges(self) -> tuple[str, ...]:
        """What ``WWW-Authenticate`` offers."""
        basic = (f'Basic realm="{REALM}", charset="UTF-8"',) if self.scram or self.plain is not None else ()
        return (*basic, f'Bearer realm="{REALM}"') if self.tokens is not None else basic


@define
class HttpLoginMetrics:
    """
    Counters of all listeners.

    :ivar authentications: requests with right credentials.
    :ivar failures: requests with wrong ones.
    """

    authentications: int = metric(
        "logbus_http_successful_authentications_total", "HTTP requests with a right password or token."
    )
    failures: int = metric("logbus_http_failed_authentications_total", "HTTP requests with a wrong password or token.")


# As an attribute of a class it would have the class's namespace.
_log = Logger(namespace="logbus.security")


def _nobody(mechanism: str, user: str, by_token: bool) -> None:
    return None


@define(eq=False)
class HttpAuthentication:
    """
    Authenticates the requests of a listener.

    :ivar logins: the current settings.
    :ivar clock: the broker's reactor.
    :ivar in_thread: runs something in a thread.
    :ivar delay: seconds after which a client learns that its login failed.
    :ivar accounts: finds the users of SCRAM.
    :ivar certificate: returns the principal of a connection's certificate, if it has one.
    """

    logins: Callable[[], HttpLogins]
    clock: IReactorTime
    in_thread: Callable[[Callable[[], bool]], Deferred[bool]]
    delay: Callable[[], float]
    accounts: ScramAccounts = _nobody
    unknown: UnknownUsers = field(factory=UnknownUsers)
    certificate: Callable[[Any], str | None] | None = None
    metrics: HttpLoginMetrics = field(factory=HttpLoginMetrics)
    _verified: VerifiedPasswords = field(init=False)
    _threads: DeferredSemaphore = field(factory=lambda: DeferredSemaphore(THREADS), init=False)
    _waiting: Counter[str] = field(factory=Counter, init=False)
    _warnings: WarningLimiter = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._verified = VerifiedPasswords(self.clock.seconds)
        self._warnings = WarningLimiter(self.clock.seconds)

    def principal(self, host: str, transport: Any, headers: Mapping[str, Sequence[str]]) -> str | Deferred[str]:
        """
        Return the principal of a request: ``User:name``, or ``User:ANONYMOUS`` if it need not have one.

        :param host: the client's address.
        :param headers: values by lower-case name.
        :raise HttpProblem: directly or in the Deferred: the login failed, or is missing.
        """
        given = headers.get("authorization", ())
        if given:
            return self._log_in(host, given)
        principal = None
        if self.certificate is not None:
            try:
                principal = self.certificate(transport)
            except NoMatchingRule as e:
                self._warn(host, str(e))
                raise HttpProblem(HTTPStatus.FORBIDDEN, "No rule gives a name to the client's certificate.") from None
        if principal is None and self.logins().required:
            raise self.challenge("This listener needs a login.")
        return principal or ANONYMOUS

    def challenge(self, detail: str) -> HttpProblem:
        """Return the answer that asks for credentials."""
        offered = self.logins().challenges
        if not offered:  # RFC 9110 wants a challenge with 401
            return HttpProblem(HTTPStatus.FORBIDDEN, detail)
        return HttpProblem(HTTPStatus.UNAUTHORIZED, detail, {"WWW-Authenticate": ", ".join(offered)})

    def _log_in(self, host: str, values: Sequence[str]) -> str | Deferred[str]:
        begun = self.clock.seconds()
        try:
            given = read_authorization(values)
            if isinstance(given, TokenCredentials):
                return self._succeeded(self._token_login(given.token))
            checked = self._check(host, given)
        except SaslAuthenticationError as e:
            return self._failed(host, begun, str(e))
        if checked is None:
            return self._succeeded(Login(given.user))
        return checked.addCallback(self._verdict, host, begun, given)

    def _token_login(self, token: str) -> Login:
        validate = self.logins().tokens
        if validate is None:
            raise SaslAuthenticationError("a token, which this listener does not accept")
        return validate(token)

    def _check(self, host: str, given: PasswordCredentials) -> Deferred[bool] | None:
        """
        Check a password, in a thread; None: it is known to be right.

        Each mechanism takes the time of PBKDF2 once, whether it knows the user or not.
        """
        logins, user = self.logins(), given.user
        if not (logins.scram or logins.plain is not None):
            raise SaslAuthenticationError(f"a password of {shown(user)}, which this listener does not accept")
        if logins.plain is not None and logins.plain(user, given.password):
            return None
        known: list[tuple[str, ScramCredential]] = []
        for mechanism in logins.scram:
            account = self.accounts(mechanism, user, False)
            made_up = self.unknown.credential(mechanism, user)
            known.append((mechanism, made_up if account is None else account.credential))
        basis = tuple(known)
        if self._verified.has(given, basis):
            return None
        share = address_share(host)
        if self._waiting.total() >= MOST_WAITING or self._waiting[share] >= MOST_WAITING_OF_ADDRESS:
            raise HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, "Too many logins are being verified; try again soon.")
        self._waiting[share] += 1

        def verify() -> bool:
            # All of them, whichever is right, so that the time does not tell.
            fitting = [credential.fits(mechanism, given.password) for mechanism, credential in basis]
            return any(fitting)

        def done(result: Any) -> Any:
            self._waiting[share] -= 1
            if not self._waiting[share]:
                del self._waiting[share]
            return result

        def remember(fits: bool) -> bool:
            if fits:
                self._verified.add(given, basis)
            return fits

        return self._threads.run(self.in_thread, verify).addBoth(done).addCallback(remember)

    def _verdict(self, fits: bool, host: str, begun: float, given: PasswordCredentials) -> str | Deferred[str]:
        if fits:
            return self._succeeded(Login(given.user))
        return self._failed(host, begun, f"wrong user or password for user {shown(given.user)}")

    def _succeeded(self, login: Login) -> str:
        self.metrics.authentications += 1
        return f"User:{login.user}"

    def _failed(self, host: str, begun: float, why: str) -> Deferred[str]:
        """Answer after the delay, which counts from the request: how long the check took does not show."""
        self.metrics.failures += 1
        self._warn(host, why)
        answer = self.challenge("The login failed: wrong user, password or token.")

        def say() -> str:
            raise answer

        seconds = max(0.0, begun + self.delay() - self.clock.seconds())
        return deferLater(self.clock, seconds, say)

    def _warn(self, host: str, why: str) -> None:
        suppressed = self._warnings.admit(host)
        if suppressed is not None:
            more = f" ({suppressed} more suppressed)" if suppressed else ""
            _log.warn("HTTP of {host}: authentication failed: {why}{more}", host=host, why=why, more=more)
