"""Which grant a proof of a key gives, for which path and until when."""

from collections.abc import Iterable

import pytest

from twinbus.auth import sas
from twinbus.auth.claims import AuthorizationRule, Claim, Grant
from twinbus.auth.policy import Policy
from twinbus.errors import AuthenticationFailed, UnauthorizedAccess

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000

POLICY = Policy(
    [
        AuthorizationRule(
            key_name="root",
            primary_key="root one",
            secondary_key="root two",
            claims=Claim.MANAGE,
        ),
        AuthorizationRule(
            key_name="sender", primary_key="namespace key", claims=Claim.SEND
        ),
        AuthorizationRule(
            key_name="sender",
            primary_key="orders key",
            claims=Claim.SEND,
            scope="orders",
        ),
    ]
)


def token(
    resource: str = "sb://host/orders",
    key_name: str = "root",
    key: str = "root one",
    expires_at: int = NOW + HOUR_MS,
) -> str:
    return sas.make(
        resource=resource, key_name=key_name, key=key, expires_at=expires_at
    )


def test_token_grants_the_claims_of_its_rule_on_the_audience() -> None:
    grant = POLICY.grant_by_token(token(), "amqps://host/Orders/$management", NOW)
    assert grant == Grant(path="orders", claims=Claim.MANAGE, expires_at=NOW + HOUR_MS)
    assert grant.allows(Claim.LISTEN, "orders/$deadletterqueue", NOW)


def test_secondary_key_is_as_good_as_the_primary() -> None:
    grant = POLICY.grant_by_token(token(key="root two"), "sb://host/orders", NOW)
    assert grant.claims == Claim.MANAGE


@pytest.mark.parametrize("resource", ["sb://host/", "https://host:5300", "host:5672"])
def test_token_for_the_namespace_is_good_for_every_entity(resource: str) -> None:
    grant = POLICY.grant_by_token(token(resource), "sb://host/orders", NOW)
    assert grant.path == "orders"


def test_token_for_half_a_name_is_not_good_for_the_whole() -> None:
    with pytest.raises(UnauthorizedAccess) as refusal:
        POLICY.grant_by_token(token("sb://host/ord"), "sb://host/orders", NOW)
    assert "'ord'" in refusal.value.text
    assert refusal.value.entity_path == "orders"


def test_token_for_an_entity_is_not_good_for_the_namespace() -> None:
    with pytest.raises(UnauthorizedAccess):
        POLICY.grant_by_token(token("sb://host/orders"), "sb://host/", NOW)


def test_token_ends_at_the_instant_of_its_expiry() -> None:
    short = token(expires_at=NOW)
    assert POLICY.grant_by_token(short, "sb://host/orders", NOW - 1)
    with pytest.raises(AuthenticationFailed, match="expired at 2023-11-14T22:13:20"):
        POLICY.grant_by_token(short, "sb://host/orders", NOW)


@pytest.mark.parametrize(("key_name", "key"), [("root", "wrong"), ("nobody", "wrong")])
def test_wrong_key_and_unknown_name_get_the_same_answer(
    key_name: str, key: str
) -> None:
    with pytest.raises(AuthenticationFailed) as refusal:
        POLICY.grant_by_token(
            token(key_name=key_name, key=key), "sb://host/orders", NOW
        )
    assert refusal.value.text == AuthenticationFailed.default_text("orders")


def test_forged_token_is_not_told_that_it_expired() -> None:
    forged = token(key="wrong", expires_at=NOW - HOUR_MS)
    with pytest.raises(AuthenticationFailed) as refusal:
        POLICY.grant_by_token(forged, "sb://host/orders", NOW)
    assert "expired" not in refusal.value.text


def test_rule_of_an_entity_is_good_below_it_only() -> None:
    entity_token = token(key_name="sender", key="orders key")
    assert POLICY.grant_by_token(entity_token, "sb://host/orders", NOW)
    wide_token = token("sb://host/", key_name="sender", key="orders key")
    with pytest.raises(AuthenticationFailed):
        POLICY.grant_by_token(wide_token, "sb://host/others", NOW)


def test_rule_of_an_entity_is_good_for_its_parts_and_not_for_its_namesakes() -> None:
    parts = ("orders", "orders/$deadletterqueue", "orders/subscriptions/billing")
    namesakes = ("orders/new", "orders2", "other")
    grant = POLICY.grant_by_token(
        token(key_name="sender", key="orders key"), "sb://host/orders", NOW
    )
    by_key = POLICY.grant_by_key("sender", "orders key")
    for path in parts:
        assert grant.allows(Claim.SEND, path, NOW)
        assert by_key.allows(Claim.SEND, path, NOW)
    for path in namesakes:
        assert not grant.allows(Claim.SEND, path, NOW)
        assert not by_key.allows(Claim.SEND, path, NOW)
    wide = token("sb://host/orders", key_name="sender", key="orders key")
    with pytest.raises(AuthenticationFailed):
        POLICY.grant_by_token(wide, "sb://host/orders/new", NOW)


def test_rules_of_one_name_are_told_apart_by_their_keys() -> None:
    grant = POLICY.grant_by_key("sender", "orders key")
    assert grant == Grant(path="orders", claims=Claim.SEND, entity="orders")
    assert POLICY.grant_by_key("sender", "namespace key").path == ""


def test_of_many_rules_of_one_name_the_nearest_is_tried_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise who may send to one queue of thousands costs as much as all of them."""
    rules = [
        AuthorizationRule(
            key_name="own", primary_key=f"key {n}", claims=Claim.SEND, scope=f"Q{n}"
        )
        for n in range(1_000)
    ]
    policy, tried = Policy(rules), 0
    compare = sas.SasToken.is_signed_with

    def count(token: sas.SasToken, keys: Iterable[str]) -> bool:
        nonlocal tried
        tried += 1
        return compare(token, keys)

    monkeypatch.setattr(sas.SasToken, "is_signed_with", count)
    given = token("sb://host/q900/messages", "own", "key 900")
    assert policy.widest_grant(given, NOW).entity == "Q900"
    assert policy.is_signed(given)
    assert tried == 2
    # A token for more than its entity is found all the same, and a forged one is not.
    given = token("sb://host/", "own", "key 900")
    assert policy.widest_grant(given, NOW).entity == "Q900"
    assert not policy.is_signed(token("sb://host/q900", "own", "forged"))


def test_key_itself_grants_without_an_end() -> None:
    grant = POLICY.grant_by_key("root", "root two")
    assert grant == Grant(path="", claims=Claim.MANAGE, expires_at=None)


@pytest.mark.parametrize(
    ("key_name", "key"),
    [
        ("root", "wrong"),
        ("root", ""),
        ("ROOT", "root one"),
        ("", ""),
        ("sender", "root one"),
    ],
)
def test_wrong_key_or_name_grants_nothing(key_name: str, key: str) -> None:
    with pytest.raises(AuthenticationFailed):
        POLICY.grant_by_key(key_name, key)


# --- what does not exist ----------------------------------------------------------


class _Signatures:
    """Counts how often a signature is computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        compute = sas._signature

        def counted(*arguments: str) -> str:
            self.count += 1
            return compute(*arguments)

        monkeypatch.setattr(sas, "_signature", counted)

    def of_refusal(self, made: str, path: str) -> int:
        self.count = 0
        with pytest.raises(AuthenticationFailed):
            TWO_KEYS.grant_by_token(made, path, NOW)
        return self.count


TWO_KEYS = Policy(
    [
        AuthorizationRule(
            key_name="own",
            primary_key="one",
            secondary_key="two",
            claims=Claim.SEND,
            scope="orders",
        )
    ]
)


def test_unknown_name_is_as_much_work_as_a_wrong_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that the time of a refusal does not tell which names exist, and where."""
    wrong, unknown = token(key_name="own", key="x"), token(key_name="no", key="x")
    signatures = _Signatures(monkeypatch)
    known = signatures.of_refusal(wrong, "orders")
    assert signatures.of_refusal(unknown, "orders") == known == 2
    assert signatures.of_refusal(wrong, "elsewhere") == known


@pytest.mark.parametrize("name", ["", "decoy", "nobody"])
def test_key_that_stands_for_none_opens_nothing(name: str) -> None:
    made = token(key_name=name or "x", key="decoy").replace("skn=x", f"skn={name}")
    for prove in (
        lambda: POLICY.grant_by_key(name, "decoy"),
        lambda: POLICY.grant_by_token(made, "orders", NOW),
        lambda: POLICY.widest_grant(made, NOW),
    ):
        with pytest.raises(AuthenticationFailed):
            prove()
    assert name == "" or not POLICY.is_signed(made)


def test_signature_of_a_known_key_counts_even_without_a_right() -> None:
    expired = token(expires_at=NOW - 1)
    assert POLICY.is_signed(expired)
    assert POLICY.is_signed(token("sb://host/other", "sender", "orders key"))
    assert POLICY.is_signed("no token at all")
    assert not POLICY.is_signed(token(key="root three"))


def test_all_keys_are_named_as_secrets() -> None:
    keys = {"root one", "root two", "namespace key", "orders key"}
    assert set(POLICY.secrets()) == keys
