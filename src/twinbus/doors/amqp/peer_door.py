"""The connection of another broker, on the listener for brokers.

It is served like a client's, with three differences: only the cluster's key is
accepted, which no other listener accepts; a link is for certain fragments; and what is
not served here is refused and not passed on, so that the asker looks up the owner
again.
"""

from twinbus.auth.claims import AuthorizationRule, Claim
from twinbus.auth.policy import Policy
from twinbus.doors.amqp.amqp_connection import AmqpConnection
from twinbus.doors.amqp.host import Host
from twinbus.errors import ServerBusy
from twinbus.peers.peer_connection import PEER_LINKS
from twinbus.peers.peer_properties import KEY_NAME, NAMESPACE_HOST


class PeerDoor(AmqpConnection):
    """Serves another broker."""

    __slots__ = ("_cluster_policy",)

    is_for_peers = True
    link_limit = PEER_LINKS
    session_limit = PEER_LINKS

    def __init__(self, host: Host, policy: Policy) -> None:
        super().__init__(host)
        self._cluster_policy = policy

    def _choose(self, host: str | None, *, is_last: bool) -> None:
        """Another broker says which namespace it means in place of a host. Anything
        else, as brokers of older versions send it, means the default one. Raises
        ServerBusy."""
        namespaces = self._host.namespaces
        if host is None or not host.startswith(NAMESPACE_HOST):
            self._enter(namespaces.default)
            return
        name = host.removeprefix(NAMESPACE_HOST)
        found = namespaces.named(name)
        if found is None:
            # It was made a moment ago, or is just being removed.
            raise ServerBusy(f"This broker does not know the namespace '{name}' yet.")
        self._enter(found)

    def _policy(self) -> Policy:
        return self._cluster_policy


def cluster_policy(key: bytes) -> Policy:
    """Accepts the key of the cluster, and nothing else."""
    rule = AuthorizationRule(
        key_name=KEY_NAME, primary_key=key.hex(), claims=Claim.MANAGE
    )
    return Policy((rule,))
