"""Claims, the rules that hold them, and the grants that carry them.

An authorization rule is configuration: a named pair of keys, the claims these
give, and the path below which they give them. A grant is what a connection
holds after it proved a key: claims on a path until an instant. `Manage` implies
`Send` and `Listen`.

It does not know how a key is proved (`policy.py`), nor which claim an operation
needs: the shell that serves the operation says so.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Flag
from hmac import compare_digest
from typing import Self

from twinbus.auth.resource import belongs_to, covers
from twinbus.errors import UnauthorizedAccess


class Claim(Flag):
    """What the holder may do; combine them with `|`."""

    NONE = 0
    SEND = 1
    LISTEN = 2
    MANAGE = 4

    @classmethod
    def named(cls, *names: str) -> Self:
        """The claims by their Service Bus names: `Send`, `Listen`, `Manage`.

        Raises KeyError for any other name.
        """
        claims = cls.NONE
        for name in names:
            claims |= cls[name.upper()]
        return claims

    @property
    def with_implied(self) -> "Claim":
        """These claims and those that come with them."""
        if Claim.MANAGE in self:
            return Claim.SEND | Claim.LISTEN | Claim.MANAGE
        return self

    @property
    def title(self) -> str:
        """The Service Bus names, as error texts spell them."""
        return ", ".join(str(claim.name).capitalize() for claim in self)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationRule:
    """A shared access policy of the namespace or of one entity."""

    key_name: str
    primary_key: str = field(repr=False)
    secondary_key: str = field(repr=False, default="")
    claims: Claim
    # Where the rule lives; the empty path is the namespace.
    scope: str = ""

    def keys(self) -> tuple[str, ...]:
        """The keys in use; an empty key is no key."""
        return tuple(key for key in (self.primary_key, self.secondary_key) if key)

    def has_key(self, key: str) -> bool:
        """Whether this is one of the rule's keys, in constant time."""
        return any_equal(key.encode(), [own.encode() for own in self.keys()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Claims on a path and all below it, until an instant."""

    path: str
    claims: Claim
    # The entity whose rule gave them, beyond which they do not reach; empty for a
    # rule of the namespace.
    entity: str = ""
    # None for a key proved directly: it lasts as long as its connection.
    expires_at: int | None = None
    # The rule's name, and which of its keys was proved: how it came to be, not what.
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
        """Whether it gives the claim wherever the other, of the same path, does. When
        it ends is another matter."""
        return claim in self.claims.with_implied and self.entity in ("", other.entity)


def require(grants: Iterable[Grant], claim: Claim, path: str, now: int) -> None:
    """Let the operation pass if one of the grants allows it.

    Raises UnauthorizedAccess, naming the claim and the path, if none does.
    """
    if not any(grant.allows(claim, path, now) for grant in grants):
        raise UnauthorizedAccess.missing(claim.title, entity_path=path)


def any_equal(secret: bytes, candidates: Iterable[bytes]) -> bool:
    """Compare with every candidate, so that the time tells nothing of a match."""
    # A list, not a generator: `any` must not stop at the first match.
    return any([compare_digest(secret, candidate) for candidate in candidates])
