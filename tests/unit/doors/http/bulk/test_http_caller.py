"""What one token allows, for each entity."""

import pytest

from twinbus.auth import sas
from twinbus.auth.claims import AuthorizationRule, Claim
from twinbus.auth.policy import Policy
from twinbus.doors.http.bulk.http_caller import Actors, HttpCaller
from twinbus.doors.http.request import HttpRequest
from twinbus.errors import AuthenticationFailed, UnauthorizedAccess

NOW = 1_000_000_000_000
RULES = (
    AuthorizationRule(key_name="all", primary_key="k", claims=Claim.MANAGE),
    AuthorizationRule(key_name="reads", primary_key="r", claims=Claim.LISTEN),
    AuthorizationRule(
        key_name="own", primary_key="o", claims=Claim.LISTEN, scope="orders"
    ),
    # The same name and key at two entities.
    AuthorizationRule(key_name="two", primary_key="t", claims=Claim.SEND, scope="a"),
    AuthorizationRule(key_name="two", primary_key="t", claims=Claim.SEND, scope="b"),
)


def caller(
    key_name: str, key: str, resource: str = "", seconds: int = 60
) -> HttpCaller:
    token = sas.make(
        resource=f"http://localhost/{resource}",
        key_name=key_name,
        key=key,
        expires_at=NOW + 1000 * seconds,
    )
    request = HttpRequest(
        method="POST", target="/$bulk/x", headers={"authorization": token}
    )
    return HttpCaller(request, Policy(RULES), NOW, Actors())


def test_a_key_of_the_namespace_is_good_for_all() -> None:
    held = caller("all", "k")
    for path in ("orders", "/orders/", "a/b/c", "orders/$deadletterqueue"):
        held.require(Claim.LISTEN, path)
        held.require(Claim.SEND, path)
    assert held.holds(Claim.SEND, "")


def test_a_claim_that_is_missing_is_named() -> None:
    held = caller("reads", "r")
    held.require(Claim.LISTEN, "orders")
    assert not held.holds(Claim.SEND, "orders")
    with pytest.raises(UnauthorizedAccess, match="'Send' claim"):
        held.require(Claim.SEND, "orders")


def test_a_token_for_one_entity() -> None:
    held = caller("all", "k", "orders")
    held.require(Claim.SEND, "Orders")
    assert held.holds(Claim.LISTEN, "orders/Subscriptions/x")
    for path in ("orders2", "other", ""):
        assert not held.holds(Claim.SEND, path)
        with pytest.raises(UnauthorizedAccess, match="token is for 'orders'"):
            held.require(Claim.SEND, path)


@pytest.mark.parametrize("resource", ["", "orders"])
def test_a_key_of_one_entity_signed_for_more(resource: str) -> None:
    held = caller("own", "o", resource)
    held.require(Claim.LISTEN, "orders")
    assert not held.holds(Claim.LISTEN, "orders/other")
    assert not held.holds(Claim.LISTEN, "")


def test_one_key_of_two_entities_is_good_for_both() -> None:
    held = caller("two", "t")
    for path in ("a", "b"):
        held.require(Claim.SEND, path)
    assert not held.holds(Claim.SEND, "c")


@pytest.mark.parametrize(
    ("key_name", "key", "seconds", "word"),
    [
        ("all", "x", 60, "InvalidSignature"),
        ("nobody", "k", 60, "InvalidSignature"),
        ("all", "k", 0, "ExpiredToken"),
        ("own", "o", -5, "ExpiredToken"),
    ],
)
def test_a_token_that_is_good_for_nothing(
    key_name: str, key: str, seconds: int, word: str
) -> None:
    with pytest.raises(AuthenticationFailed, match=f"^{word}: "):
        caller(key_name, key, seconds=seconds)


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer x"}])
def test_no_token_at_all(headers: dict[str, str]) -> None:
    request = HttpRequest(method="POST", target="/$bulk/x", headers=headers)
    with pytest.raises(AuthenticationFailed):
        HttpCaller(request, Policy(RULES), NOW, Actors())
