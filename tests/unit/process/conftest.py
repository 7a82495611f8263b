"""The fixtures of this folder."""

from unit.entities.conftest import world

__all__ = ["world"]
