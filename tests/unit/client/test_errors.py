"""Errors contain what happened and the peer's text."""

from twinbus.amqp.errors import AmqpError
from twinbus.amqp.outcomes import Released
from twinbus.client import ClientError, NotAccepted, RequestFailed


def test_texts_name_the_cause() -> None:
    error = AmqpError("a:b", "c")
    assert str(ClientError("lost", error)) == "lost: a:b: c"
    assert str(ClientError("lost")) == "lost"
    assert str(NotAccepted("no", Released())) == "no: Released()"
    assert str(NotAccepted("no", None, error)) == "no: a:b: c"
    assert str(RequestFailed(404, "gone")) == "status 404: gone"
