"""TLS between brokers of several machines, from the key of the cluster.

From that key each broker makes the same authority, and a certificate of its own for as
long as it runs. Both ends of a connection must show one. So who does not know the key
can neither connect nor listen, and the key is never sent to anybody who does not have
it. Names are not checked: whoever has the key is a broker, wherever it is.

Between brokers of one machine there is no TLS: nobody else can read what goes over its
loopback interface. They greet each other instead (`peers/greeting.py`).
"""

import ssl
from dataclasses import dataclass
from tempfile import NamedTemporaryFile

from twinbus.cluster.fitting import is_private_to_machine
from twinbus.instants import instant_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTls:
    """Of one broker."""

    # For those who connect to it.
    accepting: ssl.SSLContext
    # For those to which it connects.
    connecting: ssl.SSLContext

    def accepting_at(self, address: str) -> ssl.SSLContext | None:
        """What a broker with that address demands; None: no TLS."""
        return None if is_private_to_machine(address) else self.accepting

    def to(self, address: str) -> ssl.SSLContext | None:
        """What the broker with that address demands; None: no TLS."""
        return None if is_private_to_machine(address) else self.connecting


def peer_tls(cluster_key: bytes, now: int) -> PeerTls:
    """What a broker of that cluster shows, and demands."""
    # The import takes a tenth of a second, and only TLS needs it.
    from twinbus.process.certificate_authority import authority_of_secret

    authority = authority_of_secret(cluster_key, instant_of(now))
    own = authority.issue_for_peer(instant_of(now))
    return PeerTls(
        accepting=_context(ssl.PROTOCOL_TLS_SERVER, own, authority.public_pem),
        connecting=_context(ssl.PROTOCOL_TLS_CLIENT, own, authority.public_pem),
    )


def _context(protocol: int, own: bytes, authority: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.decode())
    # The library reads files only. Nobody else can read this one.
    with NamedTemporaryFile() as file:
        file.write(own)
        file.flush()
        context.load_cert_chain(file.name)
    return context
