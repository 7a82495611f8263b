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
from twinbus.peers.peer_connection import PEER_LINKS
from twinbus.peers.peer_properties import KEY_NAME


class PeerDoor(AmqpConnection):
    """Serves another broker."""

    __slots__ = ("_cluster_policy",)

    is_for_peers = True
    link_limit = PEER_LINKS
    session_limit = PEER_LINKS

    def __init__(self, host: Host, policy: Policy) -> None:
        super().__init__(host)
        self._cluster_policy = policy

    def _policy(self) -> Policy:
        return self._cluster_policy


def cluster_policy(key: bytes) -> Policy:
    """Accepts the key of the cluster, and nothing else."""
    rule = AuthorizationRule(
        key_name=KEY_NAME, primary_key=key.hex(), claims=Claim.MANAGE
    )
    return Policy((rule,))
