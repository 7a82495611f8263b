"""A peer that shows keys: held up after many wrong ones, and logged.

Every door asks here before it checks a key or a signature, and tells the outcome. The
log names a rule only if it exists: what a client gives as a name may be its key.
"""

import logging
from ipaddress import ip_address, ip_network
from typing import Any, Final

from twinbus.auth.failed_attempts import FailedAttempts
from twinbus.auth.policy import Policy
from twinbus.clock import Clock
from twinbus.doors.log_pace import LogPace
from twinbus.errors import ServerBusy

_log = logging.getLogger(__name__)

_SITE_BITS: Final = 64
"""Of an IPv6 address: one subscriber has all addresses that begin with these."""

UNKNOWN: Final = "?"


class Visits:
    """What all visitors of a server share."""

    def __init__(self, clock: Clock, allowed: int) -> None:
        self.clock = clock
        self.attempts = FailedAttempts(allowed)
        self.failures = LogPace()
        # Administration calls without a valid key.
        self.refused_calls = LogPace()


class Visitor:
    """The peer of one connection."""

    __slots__ = ("_address", "_proved", "_visits", "name", "namespace")

    def __init__(self, visits: Visits | None = None, peername: Any = None) -> None:
        """Without `visits` nothing is counted."""
        self._visits = visits
        # Whose keys it shows; empty: the default one's. Rules of two namespaces may
        # have the same name, and are counted apart.
        self.namespace = ""
        # Address and port, for logs.
        self.name = f"{peername[0]}:{peername[1]}" if peername else UNKNOWN
        self._address = _counted_address(peername[0]) if peername else UNKNOWN
        # Rules whose keys it has shown on this connection, with their namespace.
        self._proved: set[str] = set()

    def _counted(self, key_name: str) -> str:
        """No host name, and so no namespace, has a slash in its name."""
        return f"{self.namespace}/{key_name}" if self.namespace else key_name

    def check(self, key_name: str) -> None:
        """Before a key is checked. Raises ServerBusy."""
        held_ms = self.held_ms(key_name)
        if held_ms:
            seconds = -(-held_ms // 1000)
            raise ServerBusy(
                "There were too many wrong keys or signatures from your address with "
                f"this key name. Check the key, and try again in {seconds} seconds."
            )

    def held_ms(self, key_name: str) -> int:
        """How long its next attempt has to wait. Who has the key is not held up by
        others behind the same address when it renews a token."""
        visits, key_name = self._visits, self._counted(key_name)
        if visits is None or key_name in self._proved:
            return 0
        now = visits.clock.monotonic()
        return visits.attempts.held_ms(self._address, key_name, now)

    def refused_calls_due(self) -> int:
        """It has called without a valid key: of how many such calls, of all peers, a
        line is due now; 0: of none."""
        visits = self._visits
        return (
            1 if visits is None else visits.refused_calls.due(visits.clock.monotonic())
        )

    @property
    def has_failed(self) -> bool:
        """Failures of its address are remembered."""
        visits = self._visits
        return visits is not None and visits.attempts.knows(self._address)

    def proved(self, key_name: str) -> None:
        """It has shown the key of this rule."""
        key_name = self._counted(key_name)
        if self._visits is not None and key_name not in self._proved:
            self._proved.add(key_name)
            self._visits.attempts.proved(self._address, key_name)

    def failed(self, key_name: str, policy: Policy) -> None:
        """The key or the signature was wrong, or there is no such rule."""
        visits = self._visits
        if visits is None:
            return
        self._proved.discard(self._counted(key_name))
        now = visits.clock.monotonic()
        visits.attempts.failed(self._address, self._counted(key_name), now)
        if count := visits.failures.due(now):
            known = policy.has_rule(key_name)
            rule = f"the rule '{key_name}'" if known else "a rule that does not exist"
            _log.warning(
                "%s showed a wrong key or signature for %s; such attempts since the"
                " last line: %d",
                *(self.name, rule, count),
            )


def _counted_address(host: str) -> str:
    """All addresses that one peer may choose from are one."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address, _SITE_BITS), strict=False))
