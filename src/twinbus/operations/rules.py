"""Rules of a subscription: add, remove, list.

Adding and removing may be part of a transaction. Then they are checked again and
applied when it is committed. A partitioned subscription has its rules in the catalog,
which no transaction changes: there it is refused.
"""

from twinbus.auth.claims import Claim
from twinbus.entities.subscription import Subscription
from twinbus.errors import NotAllowed, NotSupported
from twinbus.links.enlistment import Enlistment
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.rule_changes import AddRule, RemoveRule
from twinbus.rules.rule import Rule


async def add_rule(
    handle: EntityHandle, rule: Rule, transaction: Enlistment | None = None
) -> None:
    """Raises EntityAlreadyExists, QuotaExceeded, NotSupported, NotAllowed."""
    handle.require(Claim.LISTEN)
    subscription, rules = _subscription(handle), handle.rules
    if transaction is None:
        await rules.add(subscription, rule)
        return
    _check_in_transaction(subscription)
    earlier = transaction.work(handle.now())
    transaction.enlist(AddRule(subscription, rules, rule, earlier), handle.now())


async def remove_rule(
    handle: EntityHandle, name: str, transaction: Enlistment | None = None
) -> None:
    """Raises MessagingEntityNotFound, NotSupported, NotAllowed."""
    handle.require(Claim.LISTEN)
    subscription, rules = _subscription(handle), handle.rules
    if transaction is None:
        await rules.remove(subscription, name)
        return
    _check_in_transaction(subscription)
    earlier = transaction.work(handle.now())
    transaction.enlist(RemoveRule(subscription, rules, name, earlier), handle.now())


async def list_rules(handle: EntityHandle, skip: int, limit: int) -> list[Rule]:
    """Raises NotSupported."""
    handle.require(Claim.LISTEN)
    return list(_subscription(handle).rules()[skip : skip + limit])


def _check_in_transaction(subscription: Subscription) -> None:
    """Raises NotAllowed."""
    if subscription.is_partitioned:
        raise NotAllowed(
            f"'{subscription.path}' is partitioned: its rules cannot be changed in a "
            "transaction. Change them outside of one.",
            entity_path=subscription.path,
        )


def _subscription(handle: EntityHandle) -> Subscription:
    if not isinstance(handle.entity, Subscription):
        raise NotSupported(
            f"'{handle.path}' is not a subscription and has no rules.",
            entity_path=handle.path,
        )
    return handle.entity
