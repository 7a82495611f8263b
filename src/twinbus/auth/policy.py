"""The namespace's authorization rules, and the grants for proofs of their keys.

There are two proofs: a shared access signature, for `$cbs` and HTTP, and the key
itself, for SASL PLAIN. Both give a `Grant` or an error. A wrong key, an unknown key
name and a rule of another entity get the same error, after the same work, so that a
peer cannot find out which names exist.

The time is a parameter, and the rules are the only state.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from twinbus.auth import sas
from twinbus.auth.claims import AuthorizationRule, Claim, Grant
from twinbus.auth.resource import audience_path, belongs_to, covers, scopes_above
from twinbus.errors import AuthenticationFailed, UnauthorizedAccess

_DECOY: Final = AuthorizationRule(
    key_name="", primary_key="decoy", secondary_key="decoy", claims=Claim.NONE
)
"""Checked in place of a rule that does not exist. Whoever signs with its key gets
nothing."""


class Policy:
    """All rules of a namespace: its own and those of its entities."""

    def __init__(self, rules: Iterable[AuthorizationRule]) -> None:
        # By name and scope. Immutable: changed rules make a new policy.
        self._rules: dict[str, dict[str, list[AuthorizationRule]]] = {}
        self._longest_scope = 0
        for rule in rules:
            scopes = self._rules.setdefault(rule.key_name, {})
            scopes.setdefault(rule.scope.lower(), []).append(rule)
            self._longest_scope = max(self._longest_scope, len(rule.scope))

    def grant_by_token(self, token: str, audience: str, now: int) -> Grant:
        """The grant of a token for this audience.

        Raises AuthenticationFailed for a token that is malformed, expired or not signed
        with a key of a rule above the audience, and UnauthorizedAccess for a token that
        was made for another resource.
        """
        path = audience_path(audience)
        parsed = sas.parse(token)
        proved = self._signing_rule(parsed, path)
        if proved is None:
            raise AuthenticationFailed(entity_path=path)
        rule, key = proved
        _check_expiry(parsed, path, now)
        if not covers(parsed.scope, path):
            raise UnauthorizedAccess(
                f"Unauthorized access to '{path}'. The token is for "
                f"'{parsed.scope}' and paths below it.",
                entity_path=path,
            )
        return Grant(
            path=path,
            claims=rule.claims,
            entity=rule.scope,
            expires_at=parsed.expires_at,
            key_name=rule.key_name,
            key=key,
        )

    def widest_grant(self, token: str, now: int) -> Grant:
        """The grant of a token for its own scope.

        Raises AuthenticationFailed if the token is not valid anywhere.
        """
        parsed = sas.parse(token)
        for rule in self._nearest_first(parsed):
            if parsed.is_signed_with(rule.keys()) and rule is not _DECOY:
                _check_expiry(parsed, parsed.scope, now)
                return Grant(
                    path=parsed.scope,
                    claims=rule.claims,
                    entity=rule.scope,
                    expires_at=parsed.expires_at,
                    key_name=rule.key_name,
                )
        raise AuthenticationFailed(entity_path=parsed.scope)

    def grant_by_key(self, key_name: str, key: str) -> Grant:
        """The grant of the key itself, for as long as the connection lasts.

        Raises AuthenticationFailed for an unknown name or a wrong key.
        """
        for rule in self._named(key_name):
            if rule.has_key(key) and rule is not _DECOY:
                return Grant(
                    path=rule.scope.lower(),
                    claims=rule.claims,
                    entity=rule.scope,
                    key_name=key_name,
                    key=key,
                )
        raise AuthenticationFailed()

    def secrets(self) -> Iterator[str]:
        """All keys, so that they can be left out of what is shown."""
        for scopes in self._rules.values():
            for rules in scopes.values():
                for rule in rules:
                    yield from rule.keys()

    def has_rule(self, key_name: str) -> bool:
        """Whether the namespace or an entity has a rule of that name."""
        return key_name in self._rules

    def is_signed(self, token: str) -> bool:
        """Whether a key of any rule has made the token, even if it gives no right or
        has expired; True for what is not a token at all: nothing was guessed."""
        try:
            parsed = sas.parse(token)
        except AuthenticationFailed:
            return True
        return any(
            parsed.is_signed_with(rule.keys()) and rule is not _DECOY
            for rule in self._nearest_first(parsed)
        )

    def renewed(self, grant: Grant) -> Grant | None:
        """The grant with the current claims of its rule; None if the rule no longer
        exists, or no longer has the key that was proved."""
        scopes = self._rules.get(grant.key_name, {})
        for rule in scopes.get(grant.entity.lower(), ()):
            if rule.has_key(grant.key):
                return replace(grant, claims=rule.claims)
        return None

    def _named(self, *key_names: str) -> Iterator[AuthorizationRule]:
        is_known = False
        for key_name in key_names:
            for rules in self._rules.get(key_name, {}).values():
                is_known = True
                yield from rules
        if not is_known:
            yield _DECOY

    def _nearest_first(self, token: sas.SasToken) -> Iterator[AuthorizationRule]:
        """All rules that the token may name. First those above its scope: thousands of
        entities may each have a rule of the same name."""
        above = scopes_above(token.scope, self._longest_scope)
        for key_name in token.key_names:
            by_scope = self._rules.get(key_name, {})
            for scope in above:
                yield from by_scope.get(scope, ())
        for rule in self._named(*token.key_names):
            if rule.scope.lower() not in above:
                yield rule

    def _signing_rule(
        self, token: sas.SasToken, path: str
    ) -> tuple[AuthorizationRule, str] | None:
        """A rule above the path and its key that made the signature."""
        # Rules of the namespace first, because they give most.
        scopes = list(reversed(scopes_above(path, self._longest_scope)))
        is_known = False
        for key_name in token.key_names:
            by_scope = self._rules.get(key_name, {})
            for scope in scopes:
                for rule in by_scope.get(scope, ()):
                    if not belongs_to(rule.scope, path):
                        continue
                    is_known = True
                    keys = [key for key in rule.keys() if token.is_signed_with((key,))]
                    if keys:
                        return rule, keys[0]
        if not is_known:
            token.is_signed_with(_DECOY.keys())
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
