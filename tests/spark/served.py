"""`twinbus serve` in its own process, for the Spark tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from crash.server_process import ServerProcess

from twinbus.config.config import ROOT_KEY_NAME
from twinbus.testing import Bus

from .harness import Namespace


class ServedBus(ServerProcess):
    """A bus whose time is the machine's, and which a test may kill."""

    @property
    def connection_string(self) -> str:
        return (
            f"Endpoint=sb://127.0.0.1:{self.port};SharedAccessKeyName={ROOT_KEY_NAME};"
            f"SharedAccessKey={self.key};UseDevelopmentEmulator=true"
        )


@contextmanager
def served(folder: Path, *queues: str) -> Iterator[tuple[ServedBus, Namespace]]:
    """A bus with these queues, and the same as the tests speak to it."""
    place = folder / "served"
    place.mkdir()
    config = "".join(f'[queues."{name}"]\n' for name in queues)
    with ServedBus(place, config) as bus:
        bus.start_now()
        # A connection string is all that is asked of it.
        with Namespace(cast(Bus, bus), place) as namespace:
            yield bus, namespace
