"""Shared access rules of an entity.

Those of an entity are a property of it. Those of the whole namespace are in its record
in the catalog, and in the configuration. All become part of the policy that checks
tokens. A rule is never printed with its keys.

What is read from the catalog is accepted as it is; the limits are checked when rules
change (`check_changed`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from twinbus.errors import ArgumentError, ArgumentOutOfRange, QuotaExceeded
from twinbus.limits import ACCESS_KEY_CHARACTERS, ACCESS_RULES, KEY_NAME_CHARACTERS

RIGHTS: Final = ("Send", "Listen", "Manage")

ROOT_KEY_NAME: Final = "RootManageSharedAccessKey"
"""Each namespace has a rule of this name, with all rights."""

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

    def to_json(self) -> dict[str, Any]:
        """For the catalog, with its keys."""
        return {
            "key_name": self.key_name,
            "primary_key": self.primary_key,
            "secondary_key": self.secondary_key,
            "rights": list(self.rights),
        }


def check_changed(
    rules: Sequence[AccessRule], before: Sequence[AccessRule], path: str
) -> None:
    """Check rules that are about to replace others. Raises ArgumentError,
    ArgumentOutOfRange, QuotaExceeded."""
    if len(rules) > max(ACCESS_RULES, len(before)):
        raise QuotaExceeded(
            f"'{path}' would have {len(rules)} authorization rules; {ACCESS_RULES} are "
            "the limit. Delete one that is not used.",
            entity_path=path,
        )
    names = [rule.key_name for rule in rules]
    for rule in rules:
        if names.count(rule.key_name) > 1:
            raise ArgumentError(
                f"Two authorization rules of '{path}' are called '{rule.key_name}'.",
                entity_path=path,
            )
        if rule not in before:
            _check_new(rule, path)


def _check_new(rule: AccessRule, path: str) -> None:
    name = rule.key_name
    if len(name) > KEY_NAME_CHARACTERS or not name.isprintable():
        raise ArgumentOutOfRange(
            f"The name of an authorization rule of '{path}' has {len(name)} "
            f"characters. It may have {KEY_NAME_CHARACTERS}, without line breaks and "
            "other control characters.",
            entity_path=path,
        )
    for key in (rule.primary_key, rule.secondary_key):
        if len(key) > ACCESS_KEY_CHARACTERS:
            raise ArgumentOutOfRange(
                f"A key of rule '{name}' of '{path}' has {len(key)} characters; "
                f"{ACCESS_KEY_CHARACTERS} are the limit.",
                entity_path=path,
            )
    if not rule.rights:
        raise ArgumentError(
            f"Rule '{name}' of '{path}' has no rights. Give it some of "
            f"{', '.join(RIGHTS)}.",
            entity_path=path,
        )


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
