"""Authorization rules of single entities, in addition to those of the namespace."""

from collections.abc import Iterable, Sequence

from twinbus.auth.claims import AuthorizationRule, Claim
from twinbus.auth.policy import Policy
from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.entities.entity import Description, Entity


def policy_of(rules: Sequence[AuthorizationRule], entities: Iterable[Entity]) -> Policy:
    """The policy that all doors check: rules of the namespace and of its entities."""
    own = (
        authorization_rule(rule, entity.path)
        for entity in entities
        for rule in own_access_rules(entity.description)
    )
    return Policy([*rules, *own])


def own_access_rules(description: Description) -> tuple[AccessRule, ...]:
    return getattr(description, "authorization_rules", ())


def authorization_rule(rule: AccessRule, scope: str) -> AuthorizationRule:
    """Convert a configured rule for the policy."""
    return AuthorizationRule(
        key_name=rule.key_name,
        primary_key=rule.primary_key,
        secondary_key=rule.secondary_key,
        claims=Claim.named(*rule.rights),
        scope=scope,
    )
