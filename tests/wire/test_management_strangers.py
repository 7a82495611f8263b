"""SB-W-73x: `$management` before any token, as Java up to 7.17.1 attaches to it.

Anybody can attach the links, but requests need a token; and errors before that do not
depend on what exists.
"""

import gc

import pytest

from twinbus.doors.amqp.management import ManagementNode

from .codec import Int, Long
from .frames import ACCEPTED, REJECTED
from .management import Cbs, Management
from .message import data_message, value_message

PEEK = {"from-sequence-number": Long(1), "message-count": Int(10)}


def put_token(cbs, token, path):
    audience = f"sb://localhost/{path}"
    assert cbs.put_token(audience, token(audience)).status in (200, 202)


def test_links_that_came_before_the_token_serve_after_it(anonymous, queue, token):
    """SB-W-730 attach, put the token, then ask, all on one connection."""
    peer = anonymous()
    management = Management(peer, queue)
    put_token(Cbs(peer), token, queue)
    peer.sender(queue).send(data_message("x"))
    assert management.peek_texts() == ["x"]


def test_token_for_one_entity_does_not_keep_from_attaching_to_another(
    anonymous, make_queue, token
):
    """SB-W-731 Java has one connection for all; the next token comes after the next
    attach, too."""
    peer, first, second = anonymous(), make_queue(), make_queue()
    cbs = Cbs(peer)
    put_token(cbs, token, first)
    management = Management(peer, second)
    assert management.call("peek-message", PEEK).status == 401
    put_token(cbs, token, second)
    assert management.call("peek-message", PEEK).status == 204


@pytest.mark.parametrize("operation", ["peek-message", "schedule-message", "nonsense"])
def test_stranger_is_refused_and_not_told_what_exists(anonymous, queue, operation):
    """SB-W-732 the same attach and the same answer for what is there and what is
    not, whatever is asked."""
    told = []
    for path in (queue, "no-such-queue", "no-topic/Subscriptions/no-subscription"):
        management = Management(anonymous(), path)
        answer = management.call(operation, PEEK)
        properties = answer.message.application_properties
        text = properties["statusDescription"].partition("TrackingId")[0]
        told.append(
            (
                management.sender.attached.max_message_size,
                answer.status,
                answer.condition,
                text.replace(path, "PATH"),
            )
        )
    assert told[0][1:3] == (401, "amqp:unauthorized-access")
    assert told[1:] == told[:1] * 2


def test_request_of_a_stranger_is_small(anonymous, queue, token):
    """SB-W-733 no more than a token may have; after the token as much as a message."""
    peer = anonymous()
    management = Management(peer, queue)
    request = value_message(
        {**PEEK, "unused": "x" * 100_000},
        properties={"message_id": "1"},
        application_properties={"operation": "com.microsoft:peek-message"},
    )
    sender = management.sender
    assert sender.attached.max_message_size > len(request)
    code, error = sender.outcome_of(sender.post(request))
    assert (code, error.condition) == (REJECTED, "amqp:link:message-size-exceeded")
    put_token(Cbs(peer), token, queue)
    assert sender.outcome_of(sender.post(request)) == (ACCEPTED, None)
    assert management.answer_to("1").status == 204


def test_client_is_told_what_does_not_exist_once_it_is_known(anonymous, token):
    """SB-W-734 a request on links that came before the token: not found."""
    peer = anonymous()
    management = Management(peer, "no-such-queue")
    put_token(Cbs(peer), token, "")
    answer = management.call("peek-message", PEEK)
    assert (answer.status, answer.condition) == (404, "amqp:not-found")


def test_nothing_is_kept_of_nodes_that_nobody_is_attached_to(anonymous):
    """SB-W-735 a stranger who attaches to one name after the other fills no memory."""
    peer = anonymous()
    for number in range(20):
        peer.receiver(f"name-{number}/$management").detach()
    # The bus of these tests is in this process.
    gc.collect()
    kept = [node for node in gc.get_objects() if isinstance(node, ManagementNode)]
    assert [node for node in kept if node.address.startswith("name-")] == []
