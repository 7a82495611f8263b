"""The public test kit: a real bus in your test process, with a clock that you move.

    from twinbus.testing import Bus

    with Bus() as bus:
        bus.create_queue("orders", max_delivery_count=3)
        client = ServiceBusClient.from_connection_string(bus.connection_string)
        ...
        bus.advance(61)    # locks of one minute have run out

`rule` makes rules of subscriptions, `hurried_sdk` shortens the pauses of the SDK. With
pytest, the fixture `twinbus_bus` gives each test its own bus, and `twinbus_clean_bus`
one bus for all tests, emptied after each.

A name is imported when it is used: the plugin is in this package, and every pytest run
on the machine loads it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from twinbus.testing.bus import Bus
    from twinbus.testing.clock import ManualClock
    from twinbus.testing.hurry import hurried_sdk
    from twinbus.testing.rules import rule

__all__ = ["Bus", "ManualClock", "hurried_sdk", "rule"]

_MODULES: Final = {
    "Bus": "bus",
    "ManualClock": "clock",
    "hurried_sdk": "hurry",
    "rule": "rules",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
