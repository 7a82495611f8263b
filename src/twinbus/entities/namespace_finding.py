"""Which namespace a client means, by the host names that it asked for.

The first label of a host name may be the name of a namespace, as it is with the real
service: `shop` in `shop.example.com`. An address of digits has no label. A client gives
up to four names: in SNI, in the header `Host`, in `sasl-init` and in `open`. Those that
are the name of a namespace must all be the same one; any other name says nothing, so
that a bus with one namespace is reached by every name.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import TypeVar

from twinbus.errors import NotAllowed

N = TypeVar("N")


def label_of(host: str | None) -> str:
    """The first label of a host name, which may have a port, in lower case; empty if
    there is none."""
    text = (host or "").strip().lower()
    if not text or text.startswith("["):
        return ""
    name = text.partition(":")[0]
    if text.count(":") > 1 or _is_address(name):
        return ""
    return name.partition(".")[0]


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def meant_by(hosts: Iterable[str | None], known: Mapping[str, N]) -> N | None:
    """The one of the known namespaces, by lower-case name, that these host names ask
    for; None if they ask for none. Raises NotAllowed if they ask for several."""
    found: N | None = None
    first = ""
    for host in hosts:
        label = label_of(host)
        namespace = known.get(label)
        if namespace is None:
            continue
        if found is not None and namespace is not found:
            raise NotAllowed(
                f"The connection asks for two namespaces: '{first}' and '{label}'. "
                "Use the same host name for TLS, for the connection and for requests."
            )
        found, first = namespace, label
    return found
