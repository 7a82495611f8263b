"""Decides whether a message is restored or dead-lettered, before the primary is asked.

Pure. The right to send to a backlog queue must not be a right to send everywhere, so
only messages for entities that the pair covers are restored (P12). A message keeps its
whole time to live, unless the time in the backlog counts.
"""

from collections.abc import Sequence
from typing import Generic, final

from twinbus.pairing.syphon.ports import BacklogMessage, Fault, M
from twinbus.pairing.syphon.settings import SyphonSettings


@final
class Triage(Generic[M]):
    """The messages of one batch: by entity, in order, and those that are poison."""

    def __init__(
        self,
        messages: Sequence[M],
        settings: SyphonSettings,
        now: int,
        spelled: str = "",
    ) -> None:
        """`spelled`: the spelling of an entity's path that is used here."""
        self.groups: dict[str, list[M]] = {}
        self.poison: list[tuple[M, Fault]] = []
        # Letter case does not matter; the first spelling is used for all.
        spellings = {spelled.lower(): spelled}
        for message in messages:
            fault = judged(message, settings, now)
            if fault is not None:
                self.poison.append((message, fault))
                continue
            assert message.detour is not None
            path = message.detour.path
            name = spellings.setdefault(path.lower(), path)
            self.groups.setdefault(name, []).append(message)


def judged(message: BacklogMessage, settings: SyphonSettings, now: int) -> Fault | None:
    """Why the message must not be restored; if it may, its time to live is set."""
    detour = message.detour
    if detour is None:
        return message.fault
    if not settings.covers(detour.path):
        return Fault(
            "PathNotCovered", f"The pair does not cover the entity '{detour.path}'."
        )
    if settings.count_backlog_against_ttl and detour.time_to_live_ms:
        # A scheduled message begins to age when it is due.
        born_at = max(message.enqueued_at, detour.scheduled_at or 0)
        left_ms = detour.time_to_live_ms - max(now - born_at, 0)
        if left_ms <= 0:
            return Fault(
                "TTLExpiredException",
                "The message's time to live ended while it waited in the backlog.",
            )
        message.time_to_live_ms = left_ms
    return None
