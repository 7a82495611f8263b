"""Requests have a size limit, so that an attacker cannot fill the bus's memory."""

import pytest

from .frames import REJECTED
from .message import value_message
from .peer import Peer


def _send_too_much(peer: Peer, node: str) -> tuple[int, str]:
    sender = peer.sender(node)
    limit = int(sender.attached.max_message_size)
    code, error = sender.outcome_of(sender.post(value_message("x" * limit)))
    assert error is not None
    return code, error.condition


def test_stranger_cannot_put_a_huge_token(anonymous):
    """SB-W-210 `$cbs` takes requests of some kilobytes before anything is proved."""
    peer = anonymous()
    assert int(peer.sender("$cbs").attached.max_message_size) <= 65_536
    assert _send_too_much(peer, "$cbs") == (REJECTED, "amqp:link:message-size-exceeded")


@pytest.mark.parametrize("node", ["{}/$management", "$management"])
def test_request_over_the_limit_is_rejected(peer, queue, node):
    """SB-W-710 a management request that is too large is rejected, the link lives."""
    address = node.format(queue)
    expected = (REJECTED, "amqp:link:message-size-exceeded")
    assert _send_too_much(peer, address) == expected
