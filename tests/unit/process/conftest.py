"""The world that the tests of this folder act in."""

from unit.entities.conftest import world

__all__ = ["world"]
