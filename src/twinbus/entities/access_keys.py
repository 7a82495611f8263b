"""Authorization rules as people manage them: listed, made, given new keys, removed.

A rule belongs to the namespace, or to a queue or topic. Rules of an entity are part of
its description, so the vendor's administration clients see and change them, too. Rules
of the namespace are in its record in the catalog. The root rule and the rules of the
configuration file are fixed: they are changed where they are written.

A change is durable when it returns. From then on tokens of a key that is gone are
refused; links that were opened with one end within about a second (`auth/grants.py`).
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from twinbus.broker.descriptions.access_rule import (
    ROOT_KEY_NAME,
    AccessRule,
    access_rules,
)
from twinbus.entities.entity_access import own_access_rules
from twinbus.errors import (
    ArgumentError,
    EntityAlreadyExists,
    MessagingEntityNotFound,
    NotAllowed,
)

if TYPE_CHECKING:
    from twinbus.entities.namespace import Namespace

PRIMARY: Final = "primary"
SECONDARY: Final = "secondary"
_KEY_BYTES: Final = 32

Change = Callable[[tuple[AccessRule, ...]], tuple[AccessRule, ...]]
"""Makes new rules from the present ones. Raises ServiceBusError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRule:
    """A rule, and whether it can be changed here."""

    rule: AccessRule
    is_fixed: bool = False


def new_key(entropy: Callable[[int], bytes]) -> str:
    """A random key, in the form of the service."""
    return b64encode(entropy(_KEY_BYTES)).decode()


class AccessKeys:
    """The rules of one namespace and its entities."""

    def __init__(self, namespace: "Namespace", entropy: Callable[[int], bytes]) -> None:
        self._namespace = namespace
        self._entropy = entropy

    def rules(self, path: str) -> list[ListedRule]:
        """Those of the entity; of the namespace if the path is empty. Raises
        MessagingEntityNotFound, ArgumentError."""
        if not path:
            fixed = self._namespace.access.fixed
            found = [ListedRule(rule=rule, is_fixed=True) for rule in fixed]
            return found + [
                ListedRule(rule=rule) for rule in self._namespace.access.stored
            ]
        description = self._namespace.ruled_entity(path).description
        return [ListedRule(rule=rule) for rule in own_access_rules(description)]

    async def create(
        self,
        path: str,
        key_name: str,
        rights: Sequence[str],
        primary_key: str = "",
        secondary_key: str = "",
    ) -> AccessRule:
        """Keys that are not given are made. Raises EntityAlreadyExists, QuotaExceeded,
        ArgumentError, ArgumentOutOfRange, MessagingEntityNotFound."""
        (made,) = access_rules(
            [
                {
                    "key_name": key_name,
                    "primary_key": primary_key or new_key(self._entropy),
                    "secondary_key": secondary_key or new_key(self._entropy),
                    "rights": list(dict.fromkeys(rights)),
                }
            ],
            path,
        )

        def added(rules: tuple[AccessRule, ...]) -> tuple[AccessRule, ...]:
            self._check_not_fixed(path, key_name)
            if any(rule.key_name == key_name for rule in rules):
                raise EntityAlreadyExists(
                    f"{_where(path)} already has an authorization rule '{key_name}'. "
                    "Choose another name, or regenerate its keys.",
                    entity_path=path,
                )
            return (*rules, made)

        await self._change(path, added)
        return made

    async def regenerate(self, path: str, key_name: str, which: str) -> AccessRule:
        """Make a new primary or secondary key. The old one is refused from now on, the
        other one stays. Raises MessagingEntityNotFound, ArgumentError, NotAllowed."""
        if which not in (PRIMARY, SECONDARY):
            raise ArgumentError.about(
                "key", value=which, expected=f"'{PRIMARY}' or '{SECONDARY}'"
            )
        key = new_key(self._entropy)
        renewed: list[AccessRule] = []

        def regenerated(rules: tuple[AccessRule, ...]) -> tuple[AccessRule, ...]:
            before = self._named(path, key_name, rules)
            is_primary = which == PRIMARY
            after = (
                replace(before, primary_key=key)
                if is_primary
                else replace(before, secondary_key=key)
            )
            renewed.append(after)
            return tuple(after if rule is before else rule for rule in rules)

        await self._change(path, regenerated)
        return renewed[0]

    async def delete(self, path: str, key_name: str) -> None:
        """Raises MessagingEntityNotFound, ArgumentError, NotAllowed."""

        def without(rules: tuple[AccessRule, ...]) -> tuple[AccessRule, ...]:
            gone = self._named(path, key_name, rules)
            if not path and key_name == ROOT_KEY_NAME:
                raise NotAllowed(
                    f"The rule '{ROOT_KEY_NAME}' cannot be deleted: without it nobody "
                    "could manage the namespace. Regenerate its keys instead."
                )
            return tuple(rule for rule in rules if rule is not gone)

        await self._change(path, without)

    async def _change(self, path: str, change: Change) -> None:
        if path:
            await self._namespace.change_entity_access(path, change)
        else:
            await self._namespace.access.change(change)

    def _named(
        self, path: str, key_name: str, rules: tuple[AccessRule, ...]
    ) -> AccessRule:
        self._check_not_fixed(path, key_name)
        for rule in rules:
            if rule.key_name == key_name:
                return rule
        raise MessagingEntityNotFound(
            f"{_where(path)} has no authorization rule '{key_name}'.",
            entity_path=path,
        )

    def _check_not_fixed(self, path: str, key_name: str) -> None:
        """Raises NotAllowed."""
        fixed = () if path else self._namespace.access.fixed
        if any(rule.key_name == key_name for rule in fixed):
            raise NotAllowed(
                f"The rule '{key_name}' of the namespace comes from the settings of "
                "the server: change it there, and start the server again. The root "
                "key is in the setting 'key' or in the file 'root-key' of the data "
                "folder, other rules are in the section [[rules]] of its "
                "configuration file.",
                entity_path=path,
            )


def _where(path: str) -> str:
    return f"'{path}'" if path else "The namespace"
