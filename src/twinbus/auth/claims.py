"""Claims, the authorization rules that define them, and grants.

An authorization rule is configuration: a named pair of keys, their claims, and the path
below which these are valid. A grant is what a connection has after it proved a key:
claims on a path until a time. `Manage` implies `Send` and `Listen`.

How a key is proved is in `policy.py`. Which claim an operation needs is decided where
the operation is served.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Flag
from hmac import compare_digest
from typing import Self

from twinbus.auth.resource import belongs_to, covers
from twinbus.errors import UnauthorizedAccess


class Claim(Flag):
    """What the holder may do; combine claims with `|`."""

    NONE = 0
    SEND = 1
    LISTEN = 2
    MANAGE = 4

    @classmethod
    def named(cls, *names: str) -> Self:
        """The claims with these Service Bus names: `Send`, `Listen`, `Manage`.

        Raises KeyError for any other name.
        """
        claims = cls.NONE
        for name in names:
            claims |= cls[name.upper()]
        return claims

    @property
    def with_implied(self) -> "Claim":
        """These claims and those that they imply."""
        if Claim.MANAGE in self:
            return Claim.SEND | Claim.LISTEN | Claim.MANAGE
        return self

    @property
    def title(self) -> str:
        """The Service Bus names, for error texts."""
        return ", ".join(str(claim.name).capitalize() for claim in self)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationRule:
    """A shared access policy of the namespace or of one entity."""

    key_name: str
    primary_key: str = field(repr=False)
    secondary_key: str = field(repr=False, default="")
    claims: Claim
    # Path where the rule is defined; empty for the namespace.
    scope: str = ""

    def keys(self) -> tuple[str, ...]:
        """The keys in use; empty ones are left out."""
        return tuple(key for key in (self.primary_key, self.secondary_key) if key)

    def has_key(self, key: str) -> bool:
        """Whether this is one of the rule's keys, compared in constant time."""
        return any_equal(key.encode(), [own.encode() for own in self.keys()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Claims on a path and all below it, until a time."""

    path: str
    claims: Claim
    # The entity of the rule, to which the grant is limited; empty: the namespace.
    entity: str = ""
    # None if the key itself was proved: the grant lasts as long as its connection.
    expires_at: int | None = None
    # Name of the rule, and the key that was proved; they do not matter for equality.
    key_name: str = field(compare=False, default="")
    key: str = field(compare=False, repr=False, default="")

    def is_expired(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def allows(self, claim: Claim, path: str, now: int) -> bool:
        return (
            not self.is_expired(now)
            and claim in self.claims.with_implied
            and covers(self.path, path)
            and belongs_to(self.entity, path)
        )

    def gives_all_of(self, other: "Grant", claim: Claim) -> bool:
        """Whether this grant gives the claim everywhere the other one, of the same
        path, does. Expiry is not compared."""
        return claim in self.claims.with_implied and self.entity in ("", other.entity)


def require(grants: Iterable[Grant], claim: Claim, path: str, now: int) -> None:
    """Raises UnauthorizedAccess, naming claim and path, unless one of the grants allows
    the operation."""
    if not any(grant.allows(claim, path, now) for grant in grants):
        raise UnauthorizedAccess.missing(claim.title, entity_path=path)


def any_equal(secret: bytes, candidates: Iterable[bytes]) -> bool:
    """Compare with every candidate, so that the time does not reveal a match."""
    # A list, not a generator, because `any` must not stop at the first match.
    return any([compare_digest(secret, candidate) for candidate in candidates])
