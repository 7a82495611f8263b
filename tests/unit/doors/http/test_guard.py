"""Wrong keys over HTTP are counted once a request, and only wrong ones."""

from base64 import b64encode
from dataclasses import replace

import pytest

from twinbus.auth import sas
from twinbus.auth.claims import AuthorizationRule, Claim
from twinbus.auth.policy import Policy
from twinbus.doors.http.guard import (
    held_up,
    is_guess,
    note_administration,
    note_outcome,
)
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.visitor import Visitor, Visits
from twinbus.testing.clock import ManualClock

POLICY = Policy(
    [AuthorizationRule(key_name="root", primary_key="right", claims=Claim.MANAGE)]
)
ALLOWED = 3


@pytest.fixture
def visits() -> Visits:
    return Visits(ManualClock(), ALLOWED)


def token(key: str, name: str = "root", seconds: int = 60) -> str:
    until = ManualClock().now() + seconds * 1000
    return sas.make(resource="http://h/q", key_name=name, key=key, expires_at=until)


def basic(key: str) -> str:
    return "Basic " + b64encode(f"root:{key}".encode()).decode()


def asked(visits: Visits, proof: str, header: str = "authorization") -> HttpRequest:
    return HttpRequest(
        method="PUT",
        target="/q",
        headers={header: proof},
        visitor=Visitor(visits, ("192.0.2.1", 5)),
    )


@pytest.mark.parametrize("wrong", [token("wrong"), basic("wrong")])
def test_wrong_keys_hold_up_whatever_shows_that_name(
    visits: Visits, wrong: str
) -> None:
    for _ in range(ALLOWED):
        assert held_up(asked(visits, wrong)) is None
        note_outcome(asked(visits, wrong), 401, POLICY)
    for proof in (wrong, token("right"), basic("right")):
        refusal = held_up(asked(visits, proof))
        assert refusal is not None
        assert (refusal.status, refusal.headers["retry-after"]) == (503, "1")
    assert held_up(asked(visits, token("right", "other"))) is None


def test_supplementary_token_is_a_guess_as_well(visits: Visits) -> None:
    header = "servicebussupplementaryauthorization"
    for _ in range(ALLOWED):
        note_outcome(asked(visits, token("wrong"), header), 401, POLICY)
    assert held_up(asked(visits, token("right"))) is not None


@pytest.mark.parametrize(
    "proof",
    ["", "x", "Basic ???", "Bearer x", token("right"), token("right", seconds=-60)],
)
def test_what_is_no_guess_is_not_counted(visits: Visits, proof: str) -> None:
    for _ in range(10 * ALLOWED):
        note_outcome(asked(visits, proof), 401, POLICY)
    assert len(visits.attempts) == 0


def test_right_key_ends_the_count_and_an_unchecked_one_does_not(
    visits: Visits,
) -> None:
    for _ in range(2 * ALLOWED):
        note_outcome(asked(visits, token("wrong")), 401, POLICY)
        note_outcome(asked(visits, token("right")), 200, POLICY)
    assert held_up(asked(visits, token("right"))) is None
    for _ in range(ALLOWED):
        note_outcome(asked(visits, token("wrong")), 401, POLICY)
        note_outcome(asked(visits, token("wrong")), 200, POLICY)
    assert held_up(asked(visits, token("right"))) is not None


def test_administration_is_noted_with_its_key_name(
    visits: Visits, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "twinbus.audit")
    request = asked(visits, token("right"))
    note_administration(request, 201, POLICY)
    expected = "192.0.2.1:5 with key 'root': PUT /q: HTTP 201"
    assert caplog.messages == [expected]


@pytest.mark.parametrize("proof", ["", "x", token("wrong"), basic("wrong")])
def test_calls_without_a_key_are_a_line_a_second(
    visits: Visits, caplog: pytest.LogCaptureFixture, proof: str
) -> None:
    caplog.set_level("INFO", "twinbus.audit")
    for _ in range(500):
        note_administration(asked(visits, proof), 401, POLICY)
    assert len(caplog.messages) == 1
    clock = visits.clock
    assert isinstance(clock, ManualClock)
    clock.advance(1_000)
    note_administration(asked(visits, proof), 401, POLICY)
    assert caplog.messages[1].endswith("since the last line: 500")


def test_each_call_with_a_key_is_a_line(
    visits: Visits, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "twinbus.audit")
    for _ in range(5):
        note_administration(asked(visits, token("right")), 401, POLICY)
        note_administration(asked(visits, ""), 201, POLICY)
    assert len(caplog.messages) == 10


def test_wrong_key_counts_once_when_it_is_read_or_refused(visits: Visits) -> None:
    for _ in range(ALLOWED):
        assert held_up(asked(visits, token("right"))) is None
        request = replace(asked(visits, token("wrong")), is_of_stranger=True)
        assert is_guess(request, POLICY)
        note_outcome(request, 401, POLICY)
    assert held_up(asked(visits, token("right"))) is not None


def test_wrong_key_counts_though_none_is_asked_for(visits: Visits) -> None:
    for _ in range(ALLOWED):
        request = replace(asked(visits, token("wrong")), is_of_stranger=True)
        assert is_guess(request, POLICY)
        note_outcome(request, 200, POLICY)
    assert held_up(asked(visits, token("right"))) is not None
