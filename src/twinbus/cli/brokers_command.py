"""`twinbus brokers`: its flags. What it does is in `brokers.py`."""

from typing import Any, Final

from twinbus.cli.bus_flags import FILES
from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import Json
from twinbus.cli.flags import takes

EXAMPLES: Final = examples(
    "twinbus brokers",
    "twinbus brokers --data /var/lib/twinbus --json",
)


@takes(*FILES)
def brokers(is_json: Json = False, **flags: Any) -> None:
    """Show the brokers that share the stores, and which of them owns which store.

    Reads the catalog, and looks for two seconds whether each broker is heard of.
    """
    from twinbus.cli.brokers import run_brokers
    from twinbus.cli.settings import settings

    run_brokers(settings(**flags), is_json=is_json)
