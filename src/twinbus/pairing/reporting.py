"""Hands the events of a pair to those who listen.

A listener that fails must not fail a send: it is logged, and the others are told.
"""

import logging
from collections.abc import Callable

from twinbus.pairing.events import PairEvent

_log = logging.getLogger(__name__)

Reporter = Callable[[PairEvent], None]


class ReportListeners:
    """Everybody who wants to know what happens to a pair."""

    def __init__(self) -> None:
        self._listeners: list[Reporter] = []

    def add(self, listener: Reporter) -> None:
        self._listeners.append(listener)

    def __call__(self, event: PairEvent) -> None:
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                _log.exception("a listener of the pair failed at: %s", event)
