"""Tests of :mod:`logbus.admin.problem_details`."""

from __future__ import annotations

from http import HTTPStatus

from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.problem_details import HttpProblem, problem_of, status_of
from logbus.errors import ApiError, ConfigError, ErrorCode


class ProblemTests(SynchronousTestCase):
    """The status and message of an exception."""

    def test_every_code_is_an_error(self) -> None:
        """Each of Kafka's errors has a status that says error; one that may pass says so."""
        for code in ErrorCode:
            if code is ErrorCode.NONE:
                continue
            status = status_of(code)
            self.assertGreaterEqual(status, 400, code.name)
            if status >= 500 and status is not HTTPStatus.INTERNAL_SERVER_ERROR:
                self.assertIn(status, (501, 503, 504), code.name)

    def test_codes(self) -> None:
        """Common errors have the expected statuses."""
        for code, status in (
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 404),
            (ErrorCode.TOPIC_ALREADY_EXISTS, 409),
            (ErrorCode.INVALID_CONFIG, 400),
            (ErrorCode.INVALID_PARTITIONS, 400),
            (ErrorCode.NOT_CONTROLLER, 503),
            (ErrorCode.LEADER_NOT_AVAILABLE, 503),
            (ErrorCode.REQUEST_TIMED_OUT, 504),
            (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 403),
        ):
            self.assertEqual(status_of(code), status, code.name)

    def test_api_error(self) -> None:
        """Kafka's name and our words are in the problem; what may pass says when to come back."""
        status, told, headers = problem_of(ApiError(ErrorCode.NOT_CONTROLLER, "broker 2 is the controller"))
        self.assertEqual((told["error"], told["retriable"], told["status"]), ("NOT_CONTROLLER", True, status))
        self.assertEqual(told["detail"], "broker 2 is the controller")
        self.assertEqual(headers["Retry-After"], "1")

    def test_config_error(self) -> None:
        """A wrong configuration is the client's to change."""
        status, told, _ = problem_of(ConfigError("retention.ms: 'x' is not valid"))
        self.assertEqual((status, told["error"]), (HTTPStatus.BAD_REQUEST, "INVALID_CONFIG"))

    def test_refused(self) -> None:
        """A refusal keeps its headers."""
        _, told, headers = problem_of(HttpProblem(HTTPStatus.METHOD_NOT_ALLOWED, "No.", {"Allow": "GET"}))
        self.assertEqual((told["title"], headers), ("Method Not Allowed", {"Allow": "GET"}))

    def test_retriable(self) -> None:
        """Each problem says whether the same request may succeed later, and what passes says when to come back."""
        for status in HTTPStatus:
            if status >= 400:
                _, told, headers = problem_of(HttpProblem(status, "No."))
                self.assertEqual(told["retriable"], status in (429, 503, 504), status)
                self.assertEqual("Retry-After" in headers, status in (429, 503), status)
        for code in (ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.LEADER_NOT_AVAILABLE):
            _, told, headers = problem_of(ApiError(code, "Later."))
            self.assertEqual((told["retriable"], headers), (True, {"Retry-After": "1"}))
        self.assertFalse(problem_of(ValueError())[1]["retriable"])

    def test_internal_errors_are_hidden(self) -> None:
        """The message of an unexpected error is not sent to the client."""
        status, told, _ = problem_of(KeyError("password=hunter2"))
        self.assertEqual(status, 500)
        self.assertNotIn("hunter2", str(told))
