"""The fixture ``logbus_simulation`` in a project's tests."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


def test_seeds(pytester: pytest.Pytester) -> None:
    """The marker says how many seeds; a failure is the history, and the line that repeats it."""
    pytester.makepyfile(
        """
        import pytest
        from logbus.testing.simulation import simulated

        SHORT = {"seconds": 1, "brokers": 1, "tries": 0}

        @simulated()
        async def application(simulation):
            simulation.log("is there")
            simulation.expect(simulation.seed != 3, "three is too many")

        @pytest.mark.logbus_seeds(2)
        def test_two(logbus_simulation):
            assert logbus_simulation(application, **SHORT).runs == 2

        @pytest.mark.logbus_seeds(1, first=3)
        def test_third(logbus_simulation):
            logbus_simulation(application, **SHORT)

        @pytest.mark.logbus_seeds("many")
        def test_wrong(logbus_simulation):
            logbus_simulation(application, **SHORT)
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["seed 3 FAILED:", "*three is too many", "*instance 1 is there", "again:", "*::test_third --logbus-seed 3 *"]
    )
    result.stdout.fnmatch_lines(["*give the marker a number of seeds*"])
    again = pytester.runpytest_subprocess(
        *("-p", "no:cacheprovider", "--logbus-seed", "3", "--logbus-schedule", "[]", "-k", "two")
    )
    again.assert_outcomes(failed=1, deselected=2)
    again.stdout.fnmatch_lines(["*three is too many"])
