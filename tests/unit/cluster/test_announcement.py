"""What a broker announces is read by others as it was meant."""

from dataclasses import replace

from twinbus.cluster.announcement import (
    Announcement,
    LeaseAge,
    Takeover,
    announcement_of,
)
from twinbus.store.process_identity import this_process

A = Announcement(
    broker_uuid=b"a" * 16,
    name="1",
    address="127.0.0.1:5701",
    beat=7,
    process=this_process(),
    formats={"catalog": 4},
    stores={b"s" * 16: 3},
    leases={b"s" * 16: LeaseAge(6_000, 700)},
    reach=frozenset({b"s" * 16, b"t" * 16}),
    configured=frozenset({b"s" * 16, b"t" * 16, b"u" * 16}),
    namespace="space",
    network="here",
    last_takeover=Takeover(store_uuid=b"s" * 16, taken_at=1, predecessor="2"),
    is_settled=True,
)

_LATER = (
    *("last_takeover", "configured", "namespace", "network", "settled", "leases"),
)
"""What older brokers do not tell, or not all do."""


def test_announcement_is_read_as_it_was_written() -> None:
    found = announcement_of(A.record())
    assert found == A
    assert found is not None
    assert found.process.pid_namespace == A.process.pid_namespace != ""


def test_announcement_without_takeover_is_read() -> None:
    plain = replace(A, last_takeover=None, stores={}, reach=frozenset())
    assert announcement_of(plain.record()) == plain


def test_more_than_is_known_is_ignored() -> None:
    record = A.record()
    newer = {**record.description, "mood": "good"}
    assert announcement_of(replace(record, description=newer)) == A


def test_announcement_that_cannot_be_read_is_nobody() -> None:
    record = A.record()
    for name in record.description:
        less = {k: v for k, v in record.description.items() if k != name}
        found = announcement_of(replace(record, description=less))
        assert found is None or name in _LATER
    for wrong in (
        {"stores": {"no hexadecimal": 1}},
        {"leases": {"ab": 1}},
        {"leases": {"ab": [1]}},
        {"leases": 7},
    ):
        broken = {**record.description, **wrong}
        assert announcement_of(replace(record, description=broken)) is None
