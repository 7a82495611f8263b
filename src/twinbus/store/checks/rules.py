"""Rules of subscriptions: kept whole, in the order of their creation."""

import json
from dataclasses import replace

from twinbus.broker.changes import ChangeSet, StoredRule
from twinbus.store.base import CommitFailed
from twinbus.store.checks.expectation import expect, refused
from twinbus.store.checks.owner import NOW, Owner, message, owner_of
from twinbus.store.checks.places import StorePlace


def _rule(number: int, name: str, created_at: int = NOW) -> StoredRule:
    return StoredRule(
        fragment_number=number,
        name=name,
        definition=json.dumps({"sql": "colour = '\u00fc'", "of": name}),
        created_at=created_at,
    )


async def _put(owner: Owner, *rules: StoredRule) -> None:
    changes = ChangeSet()
    changes.rules_put += rules
    await owner.commit(changes)


async def check_rules_are_kept_in_order(place: StorePlace) -> None:
    owner = await owner_of(place)
    expect(await owner.store.rules(), [], "a new store has no rules")
    await _put(owner, _rule(9, "z", NOW + 2), _rule(9, "y", NOW + 1))
    await _put(owner, _rule(9, "b", NOW + 2), _rule(1, "m"), _rule(9, "a", NOW + 2))
    owner = await owner.reopened()
    expected = [
        _rule(1, "m"),
        _rule(9, "y", NOW + 1),
        _rule(9, "z", NOW + 2),
        _rule(9, "b", NOW + 2),
        _rule(9, "a", NOW + 2),
    ]
    expect(await owner.store.rules(), expected, "by fragment and time, then as put")
    await owner.store.close()


async def check_rules_are_replaced_and_removed(place: StorePlace) -> None:
    owner = await owner_of(place)
    await _put(owner, _rule(1, "a"), _rule(1, "b"), _rule(2, "a"))
    changed = replace(_rule(1, "a"), definition="{}")
    await _put(owner, changed)
    expected = [_rule(1, "b"), changed, _rule(2, "a")]
    expect(await owner.store.rules(), expected, "replaced by name, the last to come")
    changes = ChangeSet()
    changes.rules_removed += [(1, "b"), (2, "a"), (1, "no such rule"), (3, "a")]
    changes.rules_put += [_rule(1, "b", NOW + 1), _rule(1, "c"), _rule(1, "c", NOW + 2)]
    await owner.commit(changes)
    owner = await owner.reopened()
    expected = [changed, _rule(1, "b", NOW + 1), _rule(1, "c", NOW + 2)]
    expect(await owner.store.rules(), expected, "removed first, then put")
    await owner.store.close()


async def check_rules_change_with_messages(place: StorePlace) -> None:
    """One commit, as a transaction of a client needs it."""
    owner = await owner_of(place)
    await _put(owner, _rule(1, "a"))
    changes = ChangeSet()
    changes.rules_removed.append((1, "a"))
    changes.rules_put.append(_rule(1, "b"))
    changes.active_added += [message(1, 1), message(1, 1)]
    with refused(CommitFailed, "a row id is used once"):
        await owner.commit(changes)
    expect(await owner.store.rules(), [_rule(1, "a")], "rules are as before")
    await owner.store.close()


CHECKS = (
    check_rules_are_kept_in_order,
    check_rules_are_replaced_and_removed,
    check_rules_change_with_messages,
)
