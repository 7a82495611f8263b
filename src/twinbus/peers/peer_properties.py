"""What an attach between brokers says besides what the client's attach says.

The client's broker has checked the client's claims. The owner of the fragments shows in
its operation log for whom the link is, and refuses what has expired on the way.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from twinbus.amqp.types import Symbol, Timestamp

KEY_NAME: Final = "$cluster"
"""The name of the cluster's key, in SASL PLAIN between brokers."""

NAMESPACE_HOST: Final = "$namespace/"
"""With the name of a namespace behind it, in place of a host: the whole connection is
for that namespace. No host has such a name."""

FRAGMENTS: Final = "twinbus:fragments"
CLIENT: Final = "twinbus:client"
EXPIRES: Final = "twinbus:expires"
MAY_RESTORE: Final = "twinbus:may-restore"
RESERVE: Final = "twinbus:reserve"
KEEP: Final = "twinbus:keep"
"""Nobody serves the fragment: keep its messages."""

FRAGMENT: Final = "twinbus:fragment"
"""Application property of a request that is for one fragment only."""

IS_CHECK: Final = "twinbus:is-check"
"""Application property of a request that is not to be done: would it succeed?"""


def host_for(namespace: str, host: str) -> str:
    """The host of an `open` for this namespace; the default one has no name here."""
    return f"{NAMESPACE_HOST}{namespace}" if namespace else host


_OWN: Final = (FRAGMENTS, CLIENT, EXPIRES, MAY_RESTORE, RESERVE, KEEP)

Properties = dict[object, object]


def peer_properties(
    properties: Mapping[object, object],
    indexes: Sequence[int],
    client: str,
    *,
    expires_at: int | None = None,
    may_restore: bool = False,
    reserves: bool = False,
) -> Properties:
    """Of an attach at the owner of these fragments: those of the client's, and ours."""
    added: Properties = {
        Symbol(FRAGMENTS): list(indexes),
        Symbol(CLIENT): client,
        Symbol(MAY_RESTORE): may_restore,
        Symbol(RESERVE): reserves,
    }
    if expires_at is not None:
        added[Symbol(EXPIRES)] = Timestamp(expires_at)
    return {**without_own(properties), **added}


def without_own(properties: Mapping[object, object]) -> Properties:
    """What a client may see, and may send."""
    return {name: value for name, value in properties.items() if name not in _OWN}
