"""The grants of one connection, and the rights that depend on them.

A grant is found by walking up the path, so a look-up does not search all grants. A
right is a claim in use; it refers to the grant that gives it. When that grant ends, or
is replaced by one that gives less, only its rights are checked again: each finds
another grant, or is lost.

The time and the rules are parameters. What holds the rights is not known here.
"""

from heapq import heapify, heappop, heappush
from typing import Final, final

from twinbus.auth.claims import Claim, Grant
from twinbus.auth.policy import Policy
from twinbus.auth.resource import scopes_above
from twinbus.errors import ArgumentError, UnauthorizedAccess
from twinbus.limits import GRANTS_PER_CONNECTION

_STALE_EXPIRIES: Final = 64
"""Stale expiry entries are removed when they exceed the grants by so many."""


@final
class Right:
    """A claim on a path, given by a grant."""

    __slots__ = ("claim", "holder", "path", "rests_on")

    def __init__(self, claim: Claim, path: str, rests_on: str) -> None:
        self.claim = claim
        self.path = path
        # The path of the grant that gives it.
        self.rests_on = rests_on
        # What ends when the right is lost; None until it is in use.
        self.holder: object = None

    def missing(self) -> UnauthorizedAccess:
        """The error for its holder when it is lost."""
        return UnauthorizedAccess.missing(self.claim.title, entity_path=self.path)


_Used = dict[Right, None]
"""Rights in the order in which they were taken."""


@final
class Grants:
    """The grants of one connection, one for each path; a new proof replaces a grant."""

    def __init__(self) -> None:
        self._by_path: dict[str, Grant] = {}
        # When grants end, earliest first. It may have entries of replaced grants.
        self._expiries: list[tuple[int, str]] = []
        # Rights in use, by path of their grant and claim.
        self._resting: dict[tuple[str, Claim], _Used] = {}
        self._rights_of: dict[object, tuple[Right, ...]] = {}
        # Length of the longest path of a grant.
        self._longest = 0
        # The policy that all grants were last checked with.
        self._policy: Policy | None = None
        self._has_proved = False

    def __bool__(self) -> bool:
        """Whether a key was ever proved, even if its grant has ended since."""
        return self._has_proved

    def __len__(self) -> int:
        return len(self._by_path)

    # --- proofs ---------------------------------------------------------------

    def put(self, grant: Grant, now: int) -> list[Right]:
        """Add a grant; it replaces the one for the same path. Returns the rights that
        are lost.

        Raises ArgumentError if a client puts too many tokens.
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
        """Remove grants that have expired, or whose rule no longer exists. Returns the
        rights that are lost."""
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
        """Check all grants with the changed rules."""
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
        """Find other grants for the rights of a grant that was replaced. Returns those
        that are lost."""
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
        """A client that renews a token frequently makes thousands of them."""
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
        """Whether anything is allowed for the path."""
        return any(
            self.allows(claim, path, now) for claim in (Claim.SEND, Claim.LISTEN)
        )

    def require(self, claim: Claim, path: str, now: int) -> Right:
        """The right for a claim on a path.

        Raises UnauthorizedAccess, naming claim and path, if there is none.
        """
        grant = self._covering(claim, path, now)
        if grant is None:
            raise UnauthorizedAccess.missing(claim.title, entity_path=path)
        return Right(claim, path, grant.path)

    def key_name_for(self, claim: Claim, path: str, now: int) -> str:
        """The rule that gives the claim; empty if none does."""
        grant = self._covering(claim, path, now)
        return "" if grant is None else grant.key_name

    def key_name(self, path: str, now: int) -> str:
        """The name of a key that gives any claim on the path; empty if none does."""
        for claim in (Claim.SEND, Claim.LISTEN, Claim.MANAGE):
            name = self.key_name_for(claim, path, now)
            if name:
                return name
        return ""

    def basis_of(self, right: Right) -> tuple[str, int | None]:
        """The name of the key behind a right, and when it ends."""
        grant = self._by_path[right.rests_on]
        return grant.key_name, grant.expires_at

    def hold(self, holder: object, rights: tuple[Right, ...]) -> None:
        """The holder uses these rights, which were just returned by `require`."""
        self._rights_of[holder] = rights
        for right in rights:
            right.holder = holder
            self._rest(right, self._by_path[right.rests_on])

    def pass_on(self, holder: object, heir: object) -> None:
        """Another holder takes the place of the first."""
        rights = self._rights_of.pop(holder)
        self._rights_of[heir] = rights
        for right in rights:
            right.holder = heir

    def let_go(self, holder: object) -> None:
        """The holder no longer uses its rights, or has lost them."""
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
