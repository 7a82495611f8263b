"""The name of a primary in the paths of its backlog queues (P4)."""

from ipaddress import ip_address


def primary_name(host: str, given: str | None) -> str:
    """The given name, or the first part of the host.

    Raises ValueError for hosts such as localhost or an IP address: two primaries would
    get the same name, and share their queues.
    """
    if given is not None:
        return given
    name = without_port(host).partition(".")[0].lower()
    if _is_address(without_port(host)) or name in ("", "localhost"):
        raise ValueError(
            f"The host of the primary, '{host}', does not name its namespace. Give the "
            "option primary_name, a name of its own for each primary."
        )
    return name


def without_port(host: str) -> str:
    """The host alone; an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
