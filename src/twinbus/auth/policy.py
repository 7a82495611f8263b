"""The namespace's authorization rules, and what a proof of their keys grants.

Two proofs are known: a shared access signature, as `$cbs` and HTTP take it, and
the key itself, as SASL PLAIN takes it. Both end in a `Grant` or an error. A
wrong key, an unknown key name and a rule of another entity get the same answer:
a peer learns nothing about which names exist.

It is told the time, and holds no state but the rules.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from twinbus.auth import sas
from twinbus.auth.claims import AuthorizationRule, Grant
from twinbus.auth.resource import audience_path, belongs_to, covers
from twinbus.errors import AuthenticationFailed, UnauthorizedAccess


class Policy:
    """All rules of a namespace: its own and those of its entities."""

    def __init__(self, rules: Iterable[AuthorizationRule]) -> None:
        # Never changed; a change of configuration makes a new policy.
        self._rules = tuple(rules)

    def grant_by_token(self, token: str, audience: str, now: int) -> Grant:
        """What the token gives for the audience it was put for.

        Raises AuthenticationFailed for a token that is malformed, expired or not
        signed with a key of a rule above the audience, and UnauthorizedAccess
        for one that was made for another resource.
        """
        path = audience_path(audience)
        parsed = sas.parse(token)
        rule = self._signing_rule(parsed, path)
        if rule is None:
            raise AuthenticationFailed(entity_path=path)
        _check_expiry(parsed, path, now)
        if not covers(parsed.scope, path):
            raise UnauthorizedAccess(
                f"Unauthorized access to '{path}'. The token is for "
                f"'{parsed.scope}' and what is below it.",
                entity_path=path,
            )
        return Grant(
            path=path,
            claims=rule.claims,
            entity=rule.scope,
            expires_at=parsed.expires_at,
        )

    def widest_grant(self, token: str, now: int) -> Grant:
        """What the token gives wherever it gives anything.

        Raises AuthenticationFailed for one that is good for nothing at all.
        """
        parsed = sas.parse(token)
        for rule in self._rules:
            if rule.key_name in parsed.key_names and parsed.is_signed_with(rule.keys()):
                _check_expiry(parsed, parsed.scope, now)
                return Grant(
                    path=parsed.scope,
                    claims=rule.claims,
                    entity=rule.scope,
                    expires_at=parsed.expires_at,
                )
        raise AuthenticationFailed(entity_path=parsed.scope)

    def grant_by_key(self, key_name: str, key: str) -> Grant:
        """What the key itself gives, for as long as the connection lasts.

        Raises AuthenticationFailed for an unknown name or a wrong key.
        """
        for rule in self._rules:
            if rule.key_name == key_name and rule.has_key(key):
                return Grant(path=rule.scope, claims=rule.claims, entity=rule.scope)
        raise AuthenticationFailed()

    def _signing_rule(self, token: sas.SasToken, path: str) -> AuthorizationRule | None:
        for rule in self._rules:
            if (
                rule.key_name in token.key_names
                and belongs_to(rule.scope, path)
                and token.is_signed_with(rule.keys())
            ):
                return rule
        return None


def _check_expiry(token: sas.SasToken, path: str, now: int) -> None:
    """Raises AuthenticationFailed."""
    if token.expires_at <= now:
        raise AuthenticationFailed(
            f"The token for '{path}' expired at {_iso(token.expires_at)}; it is "
            f"{_iso(now)}. Make a new one, and check the clocks.",
            entity_path=path,
        )


def _iso(instant: int) -> str:
    return datetime.fromtimestamp(instant / 1000, UTC).isoformat(timespec="seconds")
