"""Listeners are called in turn, and one that fails does not affect others."""

import logging

import pytest

from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.reporting import ReportListeners

EVENT = PairEvent(kind=EventKind.PINGED, path="orders")


def test_everybody_is_told(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[PairEvent] = []

    def fails(event: PairEvent) -> None:
        raise RuntimeError("a bug of the application")

    listeners = ReportListeners()
    listeners.add(fails)
    listeners.add(heard.append)
    with caplog.at_level(logging.ERROR):
        listeners(EVENT)
    assert heard == [EVENT]
    assert "a bug of the application" in caplog.text


def test_nobody_has_to_listen() -> None:
    ReportListeners()(EVENT)
