"""Tests of :mod:`logbus.extension_modules`."""

from __future__ import annotations

import sys
from types import ModuleType
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logbus.extension_modules import extension_module


class ExtensionModuleTests(SynchronousTestCase):
    def found(self, module: ModuleType | None, pure: str = "") -> ModuleType | None:
        """What is imported, of revision 3, if this is the module; None for one that cannot be imported."""
        with mock.patch.dict(sys.modules, {"compiled": module}), mock.patch.dict("os.environ", LOGBUS_PURE=pure):
            return extension_module("compiled", 3)

    def module(self, revision: int | None) -> ModuleType:
        """A module of that revision; None: it does not say."""
        module = ModuleType("compiled")
        if revision is not None:
            module.REVISION = revision  # type: ignore[attr-defined]
        return module

    def test_same_revision(self) -> None:
        """A module of the revision is taken."""
        module = self.module(3)
        self.assertIs(self.found(module), module)

    def test_other_revision(self) -> None:
        """One of another is not, nor one that does not say."""
        for revision in (2, 4, None):
            self.assertIsNone(self.found(self.module(revision)))

    def test_missing(self) -> None:
        """Without a compiler there is none."""
        self.assertIsNone(self.found(None))

    def test_pure(self) -> None:
        """``LOGBUS_PURE`` disables them."""
        self.assertIsNone(self.found(self.module(3), pure="1"))
