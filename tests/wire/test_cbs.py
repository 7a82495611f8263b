"""SB-W-2xx: `$cbs`: all forms of tokens, and the form of the answers."""

import uuid
from urllib.parse import quote, quote_plus

import pytest

from .codec import Int, Ulong
from .frames import LinkRefused
from .management import Cbs
from .message import data_message


def test_link_without_a_token_is_refused(anonymous, queue):
    """SB-W-201 before any token an attach is refused, for sending and receiving."""
    for attach in (anonymous().sender, anonymous().receiver):
        with pytest.raises(LinkRefused) as refused:
            attach(queue)
        assert refused.value.error.condition == "amqp:unauthorized-access"


def test_token_opens_the_queue(anonymous, queue, token):
    """SB-W-202 after put-token the links of that audience are accepted."""
    peer = anonymous()
    audience = f"sb://localhost/{queue}"
    assert Cbs(peer).put_token(audience, token(audience)).status in (200, 202)
    peer.sender(queue).send(data_message("x"))
    (delivery,) = peer.receiver(queue).take()
    assert delivery.message.text == "x"


def test_answer_has_hyphenated_properties_of_the_right_types(anonymous, queue, token):
    """SB-W-203 `status-code` int, `status-description` string, no error condition."""
    audience = f"sb://localhost/{queue}"
    cbs = Cbs(anonymous())
    for text in (token(audience), token(audience, key="wrong")):
        properties = cbs.put_token(audience, text).message.application_properties
        assert type(properties["status-code"]) is Int
        assert type(properties["status-description"]) is str
        assert not {"error-condition", "errorCondition"} & set(properties)


@pytest.mark.parametrize("kind", ["jwt", "servicebus.windows.net:sastoken", None])
def test_kind_of_a_token_is_told_by_its_text(anonymous, queue, token, kind):
    """SB-W-204 a SAS token is one under any `type`: Python calls it jwt."""
    peer = anonymous()
    audience = f"sb://localhost/{queue}"
    answer = Cbs(peer).put_token(audience, token(audience), kind=kind)
    assert answer.status in (200, 202)
    peer.sender(queue)


@pytest.mark.parametrize(
    "audience",
    [
        "sb://localhost/{}",
        "sb://localhost:5672/{}",
        "amqps://localhost/{}",
        "amqp://localhost/{}",
        "sb://localhost/{}/$management",
        "SB://LOCALHOST/{}",
    ],
)
def test_audiences_of_all_clients_are_understood(anonymous, queue, token, audience):
    """SB-W-205 scheme, port, letter case and `/$management` do not matter."""
    peer = anonymous()
    name = audience.format(queue)
    assert Cbs(peer).put_token(name, token(name)).status in (200, 202)
    peer.sender(queue)


def _lower_hex(text):
    return quote(text, safe="").replace("%3A", "%3a").replace("%2F", "%2f")


@pytest.mark.parametrize(
    "encode",
    [quote_plus, lambda text: quote(text, safe=""), _lower_hex],
    ids=["plus", "component", "lower"],
)
def test_signature_is_over_the_resource_as_it_stands(anonymous, queue, token, encode):
    """SB-W-206 each way of percent-encoding is signed as it is."""
    audience = f"sb://localhost/{queue}"
    answer = Cbs(anonymous()).put_token(audience, token(audience, encode=encode))
    assert answer.status in (200, 202)


def test_parameters_of_a_token_come_in_any_order(anonymous, queue, token):
    """SB-W-207 `sig se skn sr` is as good as `sr sig se skn`."""
    audience = f"sb://localhost/{queue}"
    text = token(audience, order="sig se skn sr")
    assert Cbs(anonymous()).put_token(audience, text).status in (200, 202)


@pytest.mark.parametrize("resource", ["sb://localhost", "amqps://localhost/"])
def test_token_of_the_namespace_opens_all_queues(anonymous, queue, token, resource):
    """SB-W-208 a token for the root is good for every path below it."""
    peer = anonymous()
    audience = f"sb://localhost/{queue}"
    assert Cbs(peer).put_token(audience, token(resource)).status in (200, 202)
    peer.sender(queue)


@pytest.mark.parametrize(
    "flaw", [{"lifetime_seconds": -1}, {"key": "another"}], ids=["expired", "forged"]
)
def test_bad_token_is_answered_with_401(anonymous, queue, token, flaw):
    """SB-W-209 expired or forged: 401, and the queue stays closed."""
    peer = anonymous()
    audience = f"sb://localhost/{queue}"
    assert Cbs(peer).put_token(audience, token(audience, **flaw)).status == 401
    with pytest.raises(LinkRefused):
        peer.sender(queue)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "SharedAccessSignature ",
        "SharedAccessSignature sr=x&sig=y&se=never&skn=z",
        "SharedAccessSignature sr&sig&se&skn",
    ],
)
def test_malformed_token_is_refused(anonymous, queue, text):
    """SB-W-210 what is no token at all gets an answer in the 400s."""
    answer = Cbs(anonymous()).put_token(f"sb://localhost/{queue}", text)
    assert 400 <= answer.status < 500


def test_token_of_one_queue_does_not_open_another(anonymous, make_queue, token):
    """SB-W-211 the audience bounds what a token is good for."""
    peer = anonymous()
    mine, other = make_queue(), make_queue()
    audience = f"sb://localhost/{mine}"
    Cbs(peer).put_token(audience, token(audience))
    peer.sender(mine)
    with pytest.raises(LinkRefused) as refused:
        peer.sender(other)
    assert refused.value.error.condition == "amqp:unauthorized-access"


def test_token_of_one_connection_does_not_open_another(anonymous, queue, token):
    """SB-W-212 tokens belong to their connection."""
    audience = f"sb://localhost/{queue}"
    Cbs(anonymous()).put_token(audience, token(audience))
    with pytest.raises(LinkRefused):
        anonymous().sender(queue)


@pytest.mark.parametrize(
    "message_id",
    [uuid.UUID(int=7), "text id", Ulong(2**40), Ulong(5), b"\x00\x01"],
    ids=["uuid", "string", "ulong", "small", "binary"],
)
def test_correlation_id_has_the_type_of_the_message_id(
    anonymous, queue, token, message_id
):
    """SB-W-213 each SDK compares its own type of id."""
    audience = f"sb://localhost/{queue}"
    answer = Cbs(anonymous()).put_token(
        audience, token(audience), message_id=message_id
    )
    assert answer.status in (200, 202)


@pytest.mark.parametrize(
    ("target", "link_name", "reply_to"),
    [
        ("$cbs", None, None),
        (None, "cbs-by-name", "cbs-by-name"),
        ("the-target", None, "the-target"),
    ],
    ids=["python", "javascript", "dotnet-java"],
)
def test_reply_finds_its_way(anonymous, queue, token, target, link_name, reply_to):
    """SB-W-214 no reply-to; reply-to = link name; reply-to = target."""
    audience = f"sb://localhost/{queue}"
    cbs = Cbs(anonymous(), target=target, link_name=link_name)
    answer = cbs.put_token(audience, token(audience), reply_to=reply_to)
    assert answer.status in (200, 202)


def test_token_is_renewed_on_the_same_links(anonymous, queue, token):
    """SB-W-215 a second token for the same audience is accepted."""
    cbs = Cbs(anonymous())
    audience = f"sb://localhost/{queue}"
    for lifetime_seconds in (60, 600):
        text = token(audience, lifetime_seconds=lifetime_seconds)
        assert cbs.put_token(audience, text).status in (200, 202)


def test_token_for_nothing_is_answered_with_404(anonymous, queue, token):
    """SB-W-216 with the sentence that SDKs go by; who has no key learns nothing."""
    audience = "sb://localhost/nowhere"
    cbs = Cbs(anonymous())
    answer = cbs.put_token(audience, token(audience))
    assert answer.status == 404
    description = answer.message.application_properties["status-description"]
    assert "The messaging entity 'nowhere' could not be found" in description
    assert cbs.put_token(audience, token(audience, key="wrong")).status == 401


def test_token_for_what_is_above_entities_is_taken(bus, anonymous, token):
    """SB-W-217 a path that entities lie below is none of its own, and is no error."""
    queue = "above-it/queue"
    bus.create_queue(queue)
    peer = anonymous()
    audience = "sb://localhost/above-it"
    assert Cbs(peer).put_token(audience, token(audience)).status in (200, 202)
    peer.sender(queue).send(data_message("x"))
