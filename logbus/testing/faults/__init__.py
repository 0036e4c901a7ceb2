"""
Faults on command: requests that fail, wait, or get no answer or a wrong one, as rules say.

* ``control``: :class:`Faults`, as a test gives them: ``broker.faults``
* ``rules``: rules as values, which have a form in JSON
* ``rule_book``: the rules in force, and what they have done
* ``injector``: has them happen to the requests of a broker

Answers with errors:

* ``error_places``: where an error code can stand in a response
* ``error_answers``: makes the answer that a request failed
* ``merging``: has a part of a request fail

A rule goes from ``control`` into the ``rule_book``; ``injector`` asks that for each request.
"""

from __future__ import annotations

from logbus.testing.faults.control import Fault, Faults
from logbus.testing.faults.rules import Rule, rule_from_json
from logbus.testing.requests.apis import WrongRequest

__all__ = ["Fault", "Faults", "Rule", "WrongRequest", "rule_from_json"]
