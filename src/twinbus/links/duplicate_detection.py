"""Duplicate detection: was this message here before?

A message is told from others by its message id, where the entity detects duplicates,
and by the ids that twinbus adds: the send id of a paired client, and what a restored
message was restored from. The ids of new messages are looked up in the store before
the messages are accepted (`ask_for_duplicates`), and remembered with the same commit
(`was_seen`).
"""

from twinbus.broker.admission import Admission, Duplicates
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.encoding.identity import duplicate_key, restored_from, send_key
from twinbus.encoding.layout import IDENTIFIED, PING


def was_seen(
    fragment: Fragment, message: Message, now: int, duplicates: Duplicates
) -> bool:
    """True for a duplicate. The ids of a new message are remembered."""
    if message.layout & PING != 0:
        return False
    if message.layout & IDENTIFIED != 0 and _is_known(
        fragment, message, now, duplicates
    ):
        return True
    if not finds_duplicates(fragment):
        return False
    unique_id = duplicate_key(message)
    window_ms = fragment.settings.duplicate_window_ms
    return unique_id is not None and not duplicates.is_new(
        fragment, unique_id, window_ms, now, fragment.home.changes
    )


def _is_known(
    fragment: Fragment, message: Message, now: int, duplicates: Duplicates
) -> bool:
    """True if the message was seen under one of its twinbus ids. If it is dropped
    because of its send id, its origin is still recorded as restored."""
    home = fragment.home
    origin = restored_from(message)
    if origin is not None and not duplicates.is_first_restore(origin, home.changes):
        return True
    send_id = send_key(message)
    window_ms = home.send_id_window_ms
    return send_id is not None and not duplicates.is_new(
        fragment, send_id, window_ms, now, home.changes
    )


def finds_duplicates(fragment: Fragment) -> bool:
    return fragment.settings.duplicate_window_ms != 0


def ask_for_duplicates(
    fragment: Fragment, messages: list[Message], admission: Admission
) -> None:
    """Look up the ids of the messages: twinbus ids, and message ids if the entity
    detects duplicates."""
    detects = finds_duplicates(fragment)
    for message in messages:
        if message.layout & PING != 0:
            continue
        if message.layout & IDENTIFIED != 0:
            _ask_for_known(fragment, message, admission)
        unique_id = duplicate_key(message) if detects else None
        if unique_id is not None:
            admission.ask(fragment, unique_id)


def _ask_for_known(fragment: Fragment, message: Message, admission: Admission) -> None:
    origin = restored_from(message)
    if origin is not None:
        admission.ask_restored(origin)
    send_id = send_key(message)
    if send_id is not None:
        admission.ask(fragment, send_id)
