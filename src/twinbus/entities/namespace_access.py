"""The authorization rules of a namespace itself, which apply to all its entities.

`fixed` are the root rule and those of the configuration file: they are given at each
start and not stored. `stored` are in the record of the namespace in the catalog, where
all brokers of the namespace find them. If both have a name, the fixed rule counts.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Final

from twinbus.auth.claims import AuthorizationRule
from twinbus.broker.descriptions.access_rule import (
    AccessRule,
    access_rules,
    check_changed,
)
from twinbus.entities.entity_access import authorization_rule
from twinbus.store.catalog import EntityRecord

RULES: Final = "authorization_rules"
"""In the description of the namespace's record."""


class NamespaceAccess:
    """The rules of one namespace."""

    def __init__(
        self,
        name: str,
        fixed: tuple[AccessRule, ...],
        save: Callable[[Callable[[EntityRecord], EntityRecord]], Awaitable[None]],
    ) -> None:
        """`save` makes a change of the namespace's record durable; then the record is
        learned."""
        self._name = name
        self._save = save
        self.fixed = fixed
        self.stored: tuple[AccessRule, ...] = ()

    def learn(self, record: EntityRecord) -> bool:
        """What the catalog says. Returns whether the rules have changed."""
        before = self.stored
        given = record.description.get(RULES, ())
        self.stored = access_rules(list(given), self._name)
        return self.stored != before

    def rules(self) -> tuple[AuthorizationRule, ...]:
        """All of them, for the policy."""
        names = {rule.key_name for rule in self.fixed}
        stored = [rule for rule in self.stored if rule.key_name not in names]
        return tuple(authorization_rule(rule, "") for rule in (*self.fixed, *stored))

    async def change(
        self, change: Callable[[tuple[AccessRule, ...]], Iterable[AccessRule]]
    ) -> None:
        """Replace the stored rules, durably. Raises what `change` raises,
        ArgumentError, QuotaExceeded, ServerBusy."""

        def changed(record: EntityRecord) -> EntityRecord:
            # Learned inside: another broker may have changed them meanwhile.
            before = access_rules(list(record.description.get(RULES, ())), self._name)
            after = tuple(change(before))
            self._check_changed(before, after)
            stored = [rule.to_json() for rule in after]
            return replace(record, description={**record.description, RULES: stored})

        await self._save(changed)

    def _check_changed(
        self, before: tuple[AccessRule, ...], after: tuple[AccessRule, ...]
    ) -> None:
        """Raises ArgumentError, QuotaExceeded. A stored rule of the name of a fixed one
        does not count: it was there before the settings had that one."""
        names = {rule.key_name for rule in self.fixed}
        kept = (rule for rule in after if rule.key_name not in names)
        check_changed((*self.fixed, *kept), (*self.fixed, *before), self._name)
