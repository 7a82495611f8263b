"""What one connection has proved, and what rests on it.

A grant is found by walking up the path that it has to cover, so that neither a look-up
nor a renewal goes over all that there are. A right is a claim that somebody uses: it
remembers the grant that it was found to rest on. When that one ends, or is replaced by
one that gives less, the rights that rest on it are looked at, and no others: each finds
another grant, or is lost.

It is told the time and the rules, and does not know what holds the rights.
"""

from heapq import heapify, heappop, heappush
from typing import Final, final

from twinbus.auth.claims import Claim, Grant
from twinbus.auth.policy import Policy
from twinbus.auth.resource import scopes_above
from twinbus.errors import ArgumentError, UnauthorizedAccess
from twinbus.limits import GRANTS_PER_CONNECTION

_STALE_EXPIRIES: Final = 64
"""Ends of grants that were replaced since are thrown away when there are so many more
of them than grants."""


@final
class Right:
    """A claim on a path that was found to be held."""

    __slots__ = ("claim", "holder", "path", "rests_on")

    def __init__(self, claim: Claim, path: str, rests_on: str) -> None:
        self.claim = claim
        self.path = path
        # The path of the grant that gives it.
        self.rests_on = rests_on
        # What is over when the right is; None as long as nothing is.
        self.holder: object = None

    def missing(self) -> UnauthorizedAccess:
        """What its holder is told when it is lost."""
        return UnauthorizedAccess.missing(self.claim.title, entity_path=self.path)


_Used = dict[Right, None]
"""Rights in the order in which they were taken."""


@final
class Grants:
    """The grants of one connection, one for each path; renewed by a new proof."""

    def __init__(self) -> None:
        self._by_path: dict[str, Grant] = {}
        # When grants end, the first first. One that was replaced may still be here.
        self._expiries: list[tuple[int, str]] = []
        # The rights in use, by the path of their grant and by claim.
        self._resting: dict[tuple[str, Claim], _Used] = {}
        self._rights_of: dict[object, tuple[Right, ...]] = {}
        # No grant has a longer path.
        self._longest = 0
        # The rules that all grants were last held against.
        self._policy: Policy | None = None
        self._has_proved = False

    def __bool__(self) -> bool:
        """Whether a key was proved at all, though its grant may have ended since."""
        return self._has_proved

    def __len__(self) -> int:
        return len(self._by_path)

    # --- proofs ---------------------------------------------------------------

    def put(self, grant: Grant, now: int) -> list[Right]:
        """Take a proof, in the place of the one for the same path before; the rights
        that are lost by it.

        Raises ArgumentError when a client puts tokens without end.
        """
        path = grant.path
        if path not in self._by_path and len(self._by_path) >= GRANTS_PER_CONNECTION:
            raise ArgumentError(
                f"The connection holds tokens for {GRANTS_PER_CONNECTION} audiences, "
                "the limit. Use a token for the namespace."
            )
        before = self._by_path.get(path)
        self._by_path[path] = grant
        self._has_proved = True
        self._longest = max(self._longest, len(path))
        if grant.expires_at is not None:
            heappush(self._expiries, (grant.expires_at, path))
            self._forget_stale_expiries()
        return [] if before is None else self._moved_from(before, grant, now)

    def tick(self, policy: Policy, now: int) -> list[Right]:
        """Let go of what has ended, or is backed by no rule any more; the rights that
        are lost by it."""
        lost: list[Right] = []
        if policy is not self._policy:
            self._policy = policy
            lost += self._held_against(policy, now)
        while self._expiries and self._expiries[0][0] <= now:
            _, path = heappop(self._expiries)
            grant = self._by_path.get(path)
            if grant is not None and grant.is_expired(now):
                lost += self._end(grant, now)
        return lost

    def _held_against(self, policy: Policy, now: int) -> list[Right]:
        """The rules have changed since the proofs."""
        lost: list[Right] = []
        for grant in list(self._by_path.values()):
            renewed = policy.renewed(grant)
            if renewed is None:
                lost += self._end(grant, now)
            elif renewed != grant:
                self._by_path[grant.path] = renewed
                lost += self._moved_from(grant, renewed, now)
        return lost

    def _end(self, grant: Grant, now: int) -> list[Right]:
        del self._by_path[grant.path]
        return self._moved_from(grant, None, now)

    def _moved_from(self, before: Grant, after: Grant | None, now: int) -> list[Right]:
        """Find other grants for the rights that rested on one that was replaced."""
        lost: list[Right] = []
        for claim in before.claims.with_implied:
            if after is not None and after.gives_all_of(before, claim):
                continue
            for right in self._resting.pop((before.path, claim), ()):
                grant = self._covering(right.claim, right.path, now)
                if grant is None:
                    lost.append(right)
                else:
                    self._rest(right, grant)
        return lost

    def _forget_stale_expiries(self) -> None:
        """Who renews a token all the time makes them by the thousand."""
        if len(self._expiries) <= 2 * len(self._by_path) + _STALE_EXPIRIES:
            return
        self._expiries = [
            (grant.expires_at, path)
            for path, grant in self._by_path.items()
            if grant.expires_at is not None
        ]
        heapify(self._expiries)

    # --- rights ---------------------------------------------------------------

    def allows(self, claim: Claim, path: str, now: int) -> bool:
        return self._covering(claim, path, now) is not None

    def allows_some(self, path: str, now: int) -> bool:
        """Whether anything at all may be done with the path."""
        return any(
            self.allows(claim, path, now) for claim in (Claim.SEND, Claim.LISTEN)
        )

    def require(self, claim: Claim, path: str, now: int) -> Right:
        """The right to do what needs the claim.

        Raises UnauthorizedAccess, naming the claim and the path, if there is none.
        """
        grant = self._covering(claim, path, now)
        if grant is None:
            raise UnauthorizedAccess.missing(claim.title, entity_path=path)
        return Right(claim, path, grant.path)

    def hold(self, holder: object, rights: tuple[Right, ...]) -> None:
        """Somebody goes on using rights that were just asked for."""
        self._rights_of[holder] = rights
        for right in rights:
            right.holder = holder
            self._rest(right, self._by_path[right.rests_on])

    def pass_on(self, holder: object, heir: object) -> None:
        """Another goes on in the place of the one that held them."""
        rights = self._rights_of.pop(holder)
        self._rights_of[heir] = rights
        for right in rights:
            right.holder = heir

    def let_go(self, holder: object) -> None:
        """Its rights are not used any more, or were lost."""
        for right in self._rights_of.pop(holder, ()):
            key = (right.rests_on, right.claim)
            resting = self._resting.get(key)
            if resting is not None:
                resting.pop(right, None)
                if not resting:
                    del self._resting[key]

    def _rest(self, right: Right, grant: Grant) -> None:
        right.rests_on = grant.path
        self._resting.setdefault((grant.path, right.claim), {})[right] = None

    def _covering(self, claim: Claim, path: str, now: int) -> Grant | None:
        for scope in scopes_above(path, self._longest):
            grant = self._by_path.get(scope)
            if grant is not None and grant.allows(claim, path, now):
                return grant
        return None
