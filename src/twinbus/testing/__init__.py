"""The public test kit: a real bus in your test process, with a clock that you move.

    from twinbus.testing import Bus

    with Bus() as bus:
        bus.create_queue("orders", max_delivery_count=3)
        client = ServiceBusClient.from_connection_string(bus.connection_string)
        ...
        bus.advance(61)    # locks of one minute have run out

`rule` makes rules of subscriptions. With pytest, the fixture `twinbus_bus` gives each
test its own bus.
"""

from twinbus.testing.bus import Bus
from twinbus.testing.clock import ManualClock
from twinbus.testing.rules import rule

__all__ = ["Bus", "ManualClock", "rule"]
