"""Shared access rules of an entity.

Rules of the whole namespace are in the configuration. Both become part of the policy
that checks tokens. A rule is never printed with its keys.
"""

from dataclasses import dataclass
from typing import Final

from twinbus.errors import ArgumentError, ArgumentOutOfRange

RIGHTS: Final = ("Send", "Listen", "Manage")

_TEXTS: Final = {"key_name", "primary_key", "secondary_key"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRule:
    """A shared access rule of one entity."""

    key_name: str
    primary_key: str
    secondary_key: str = ""
    rights: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"AccessRule({self.key_name!r}, rights={self.rights})"


def access_rules(rules: object, path: str) -> tuple[AccessRule, ...]:
    """Checked rules of the entity. Raises ArgumentError, ArgumentOutOfRange."""
    if not isinstance(rules, list | tuple):
        raise ArgumentError(
            f"Property 'authorization_rules' of '{path}' must be a list.",
            entity_path=path,
        )
    return tuple(_access_rule(rule, path) for rule in rules)


def _access_rule(rule: object, path: str) -> AccessRule:
    """Check a rule of the catalog, the configuration or a request."""
    found = rule if isinstance(rule, AccessRule) else _from_mapping(rule, path)
    for right in found.rights:
        if right not in RIGHTS:
            raise ArgumentOutOfRange(
                f"A right of rule '{found.key_name}' of '{path}' is {right}; it must "
                f"be one of {', '.join(RIGHTS)}.",
                entity_path=path,
            )
    return found


def _from_mapping(rule: object, path: str) -> AccessRule:
    values = dict(rule) if isinstance(rule, dict) else {}
    rights = values.pop("rights", [])
    texts = {"secondary_key": "", **values}
    if (
        texts.keys() != _TEXTS
        or not all(isinstance(text, str) for text in texts.values())
        or not (texts["key_name"] and texts["primary_key"])
        or not isinstance(rights, list | tuple)
    ):
        raise ArgumentError(
            f"An access rule of '{path}' must have the texts 'key_name' and "
            "'primary_key', and may have a text 'secondary_key' and a list 'rights'.",
            entity_path=path,
        )
    return AccessRule(**texts, rights=tuple(rights))
