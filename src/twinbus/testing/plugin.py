"""The pytest fixture, found by pytest wherever twinbus is installed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from twinbus.testing.bus import Bus


@pytest.fixture
def twinbus_bus() -> "Iterator[Bus]":
    """A bus for the test, with a clock that the test moves."""
    # Imported here: every pytest run on the machine loads this plugin.
    from twinbus.testing.bus import Bus

    with Bus() as bus:
        yield bus
