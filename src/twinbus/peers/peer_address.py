"""The address of a broker, as it is announced: HOST:PORT."""


def host_and_port(address: str) -> tuple[str, int]:
    """An IPv6 address is in brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
