"""Errors on the wire have their condition, text and tracking id."""

import logging

import pytest

from twinbus.errors import MessageLockLost
from twinbus.links.refusal import amqp_error


def test_error_is_told_with_an_id_that_the_log_has_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    error = MessageLockLost(entity_path="orders")
    told = amqp_error(error)
    assert told.condition == "com.microsoft:message-lock-lost"
    assert told.description == f"{error.text} TrackingId:{error.tracking_id}"
    assert error.tracking_id in caplog.text


def test_error_keeps_its_id_when_it_is_told_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    error = MessageLockLost(entity_path="orders")
    assert amqp_error(error).description == amqp_error(error).description
    assert len(caplog.records) == 1
