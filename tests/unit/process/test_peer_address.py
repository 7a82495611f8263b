"""Where a broker listens for others, and what it tells them."""

from contextlib import suppress

from bench.free_port import free_port
from twinbus.config.config import Config
from twinbus.process.peer_address import peer_address, peer_sockets
from twinbus.process.seat import Seat


def _listening(config: Config, seat: Seat | None = None) -> tuple[str, int]:
    sockets = peer_sockets(config, seat or Seat(name="x"))
    try:
        host, port = sockets[0].getsockname()[:2]
        return host, port
    finally:
        for one in sockets:
            one.close()


def test_address_of_clients_is_that_for_brokers() -> None:
    config = Config(host="127.0.0.1")
    host, port = _listening(config)
    assert host == "127.0.0.1" and port > 0
    assert peer_address(config, 7000) == "127.0.0.1:7000"


def test_wildcard_is_not_announced() -> None:
    """Others cannot reach it, and it is not opened to the network either."""
    config = Config(host="0.0.0.0")
    assert _listening(config)[0] == "127.0.0.1"
    assert peer_address(config, 7000) == "127.0.0.1:7000"


def test_address_for_brokers_is_its_own() -> None:
    config = Config(host="127.0.0.1", peer_host="127.0.0.2")
    assert _listening(config)[0] == "127.0.0.2"
    assert peer_address(config, 7000) == "127.0.0.2:7000"
    assert peer_address(Config(peer_host="fd00::1"), 7000) == "[fd00::1]:7000"


def test_address_that_others_translate_is_announced() -> None:
    """192.0.2.1 is set aside for documents, so no machine has it."""
    config = Config(host="0.0.0.0", peer_host="192.0.2.1")
    assert _listening(config)[0] == "0.0.0.0"
    assert peer_address(config, 7000) == "192.0.2.1:7000"


def test_brokers_of_a_supervisor_have_consecutive_ports() -> None:
    # Of two that follow each other either may be in use.
    for _ in range(20):
        config = Config(peer_port=free_port())
        with suppress(OSError):
            found = [_listening(config, Seat(name="x", number=n))[1] for n in (1, 2)]
            break
    assert found == [config.peer_port, config.peer_port + 1]
