"""Requests of simulated clients that need no link, and requests to the namespace.

Each function is one request and its reply, and runs concurrently with everything else.
It tells the auditor the request before it sends it, and then the outcome: done,
refused, or unknown if the bus crashed before it could answer.
"""

from typing import Any, Final

from simulator.audited_message import Rules
from simulator.draft import Draft, sighting_in
from simulator.life import Life
from simulator.links import ClientSettlement, Held
from simulator.replies import replied
from simulator.sighting import Counts, Sighting, Violation
from twinbus.broker.fragment import MAIN
from twinbus.entities.subscription import Subscription
from twinbus.errors import MessageLockLost, MessageNotFound
from twinbus.limits import DUPLICATE_WINDOW_MS
from twinbus.links.outcomes import settlement_of
from twinbus.operations import deferred, deletion, locks, peeking, scheduling
from twinbus.operations.received_message import ReceivedMessage

_FAR_FUTURE: Final = 1 << 62


# --- queues ---------------------------------------------------------------------


def subscription_properties(rules: Rules) -> dict[str, Any]:
    return {
        "lock_duration_ms": rules.lock_duration_ms,
        "max_delivery_count": rules.max_delivery_count,
        "default_message_time_to_live_ms": rules.default_ttl_ms,
        "dead_lettering_on_message_expiration": rules.dead_letter_on_expiration,
        "requires_session": rules.requires_session,
        "forward_to": rules.forward_to,
        "forward_dead_lettered_messages_to": rules.forward_dead_letters_to,
        "status": rules.status,
    }


def _properties(rules: Rules) -> dict[str, Any]:
    return {
        **subscription_properties(rules),
        "requires_duplicate_detection": rules.duplicate_window_ms > 0,
        "duplicate_detection_history_time_window_ms": (
            rules.duplicate_window_ms or DUPLICATE_WINDOW_MS
        ),
    }


async def create_queue(life: Life, path: str, rules: Rules) -> None:
    life.auditor.queue_requested(path, rules)
    with replied(life, f"create {path} with {rules}") as reply:
        await life.namespace.create_queue(path, _properties(rules))
        if rules.is_small:
            life.shrink(path)
    if reply.is_ok:
        life.auditor.queue_created(path)
    elif not reply.is_unknown:
        life.auditor.queue_refused(path)


async def update_queue(life: Life, path: str, rules: Rules) -> None:
    life.auditor.update_requested(path, rules)
    with replied(life, f"update {path} to {rules}"):
        await life.namespace.update_queue(path, _properties(rules))
        if rules.is_small:
            life.shrink(path)


async def delete_queue(life: Life, path: str) -> None:
    life.auditor.deletion_requested(path)
    with replied(life, f"delete {path}") as reply:
        await life.namespace.delete_queue(path)
    # Even if it was refused: an entity is deleted when the catalog does not have it.
    if life.is_alive and not reply.is_unknown:
        life.auditor.queue_deleted(path)


# --- messages -------------------------------------------------------------------


async def schedule(life: Life, path: str, drafts: list[Draft]) -> None:
    encoded = [draft.encoded() for draft in drafts]
    uids = [draft.uid for draft in drafts]
    life.tell(None)
    for draft in drafts:
        life.auditor.send_requested(draft.uid, path, draft.sent())
    numbers: list[int] = []
    with replied(life, f"schedule {' '.join(uids)} in {path}") as reply:
        numbers = await scheduling.schedule_messages(life.handle(path), encoded)
    for i, uid in enumerate(uids):
        if reply.is_ok:
            life.auditor.send_accepted(uid, numbers[i])
        elif reply.is_unknown:
            life.auditor.send_unknown(uid)
        else:
            life.auditor.send_refused(uid)


async def cancel(life: Life, path: str, uid: str, number: int) -> None:
    life.auditor.cancel_requested(uid)
    with replied(life, f"cancel {uid} in {path}") as reply:
        await scheduling.cancel_scheduled(life.handle(path), [number])
    if reply.is_ok:
        life.auditor.cancelled(uid)
    elif reply.is_unknown:
        life.auditor.cancel_unknown(uid)
    else:
        not_found = isinstance(reply.error, MessageNotFound)
        life.auditor.cancel_refused(uid, not_found=not_found)


async def peek(
    life: Life,
    path: str,
    dead_letter: bool,
    start: int,
    count: int,
    session_id: str = "",
) -> list[Sighting]:
    """Returns the messages, after the auditor has checked them."""
    since = life.auditor.event
    seen: list[Sighting] = []
    with replied(life, f"peek {_name(path, dead_letter)} from {start}") as reply:
        handle = life.handle(path, dead_letter)
        found = await peeking.peek(handle, start, count, session_id or None)
        seen = [_sighting(item, path, dead_letter)[0] for item in found]
    if reply.is_ok:
        is_all = start <= 1 and len(seen) < count
        life.auditor.peeked(
            path,
            dead_letter,
            seen,
            since=since,
            is_all=is_all,
            session_id=session_id,
        )
    return seen


async def receive_deferred(
    life: Life, path: str, dead_letter: bool, wanted: dict[str, int], peek_lock: bool
) -> None:
    """Receive deferred messages. `wanted` has their sequence numbers by uid."""
    since = life.auditor.event
    name, auditor = _name(path, dead_letter), life.auditor
    if not peek_lock:
        for uid in wanted:
            auditor.take_deferred_requested(uid)
    session_id = None
    if not dead_letter:
        # If they are of several sessions, the bus finds only some of them.
        session_id = auditor.session_of(next(iter(wanted)))
    received: list[ReceivedMessage] = []
    with replied(life, f"receive deferred {' '.join(wanted)} of {name}") as reply:
        received = await deferred.receive_deferred(
            life.handle(path, dead_letter),
            list(wanted.values()),
            peek_lock=peek_lock,
            session_id=session_id,
        )
    if not peek_lock:
        for uid in wanted:
            auditor.take_deferred_ended(uid, is_unknown=reply.is_unknown)
    if isinstance(reply.error, MessageNotFound):
        auditor.deferred_not_found(list(wanted), session_id, since=since)
    for item in received:
        seen, locked_until = _sighting(item, path, dead_letter)
        token = item.lock_token
        if peek_lock:
            auditor.delivered(seen, token, locked_until)
            life.hold(
                Held(uid=seen.uid, token=token, path=path, dead_letter=dead_letter)
            )
        else:
            auditor.delivered_for_good(seen)


async def batch_delete(life: Life, path: str, dead_letter: bool, count: int) -> None:
    life.auditor.taker_joined(path, dead_letter)
    removed = 0
    name = _name(path, dead_letter)
    with replied(life, f"delete {count} of {name}") as reply:
        handle = life.handle(path, dead_letter)
        removed = await deletion.delete_messages(handle, count, _FAR_FUTURE)
        life.tell(f"{removed} of {name} were deleted")
    if reply.is_unknown:
        removed = count
    life.auditor.taker_left(path, dead_letter, removed)


# --- locks ----------------------------------------------------------------------


async def renew(life: Life, held: Held) -> None:
    locked_until = 0
    with replied(life, f"renew {held.uid}") as reply:
        handle = life.handle(held.path, held.dead_letter)
        (locked_until,) = await locks.renew_locks(handle, [held.token])
    if reply.is_ok:
        life.auditor.renewed(held.token, held.uid, locked_until)
    elif isinstance(reply.error, MessageLockLost):
        life.auditor.renew_refused(held.token, held.uid)


async def settle(life: Life, held: Held, settlement: ClientSettlement) -> None:
    """Settle by lock token, without the link of the delivery."""
    kind = settlement.kind
    asked_at = life.tell(None)
    life.auditor.settle_requested(held.token, held.uid, kind, settlement.reason)
    with replied(life, f"{kind} {held.uid} by token") as reply:
        handle = life.handle(held.path, held.dead_letter)
        intended = settlement_of(settlement.state(), held.path)
        await locks.settle(handle, [held.token], intended)
    if reply.is_ok:
        life.auditor.settled(held.token, held.uid, kind, asked_at=asked_at)
    elif reply.is_unknown or reply.error is None:
        life.auditor.settle_unknown(held.token, held.uid)
    else:
        life.settle_failed(held, kind, reply.error)


# --- content --------------------------------------------------------------------


def counts(life: Life, path: str) -> Counts:
    """The counters of the bus."""
    entity = life.namespace.entity(path)
    main, total = entity.counters(MAIN), entity.counts()
    assert main is not None
    return Counts(
        active=main.active_count,
        deferred=main.deferred_count,
        scheduled=total.scheduled,
        dead_letter=total.dead_letter,
        size_bytes=entity.size_bytes(),
    )


def check_quotas(life: Life) -> None:
    """Raises Violation if the bytes counted against a quota differ from the size of
    the messages."""
    for entity in life.namespace.entities():
        owner = entity
        if isinstance(entity, Subscription):
            owner = life.namespace.topic(entity.topic_path)
        used_bytes = entity.fragment()._quota.used_bytes
        if used_bytes != owner.size_bytes():
            raise Violation(
                f"{entity.path} counts {used_bytes} bytes against its limit, "
                f"{owner.path} holds {owner.size_bytes()}"
            )


def _sighting(
    item: ReceivedMessage, path: str, dead_letter: bool
) -> tuple[Sighting, int]:
    """The message as a client sees it, and the end of its lock."""
    return sighting_in(item.encoded, path, dead_letter)


def _name(path: str, dead_letter: bool) -> str:
    return f"{path}/dead" if dead_letter else path
