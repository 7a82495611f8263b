"""Which messages are restored, which are poison, and their time to live."""

from hypothesis import given
from hypothesis import strategies as st

from twinbus.pairing.detour import Detour
from twinbus.pairing.syphon.ports import BacklogMessage, Fault
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon.triage import Triage, judged

NOW = 1_000_000


def message(
    path: str = "orders",
    *,
    number: int = 1,
    fault: Fault | None = None,
    ttl_ms: int | None = None,
    scheduled_at: int | None = None,
    enqueued_at: int = NOW,
) -> BacklogMessage:
    detour = Detour(path=path, time_to_live_ms=ttl_ms, scheduled_at=scheduled_at)
    return BacklogMessage(
        sequence_number=number,
        enqueued_at=enqueued_at,
        size_bytes=1,
        detour=None if fault else detour,
        fault=fault,
    )


COUNTED = SyphonSettings(count_backlog_against_ttl=True)


def test_a_time_to_live_is_restored_whole() -> None:
    old = message(ttl_ms=1_000, enqueued_at=0)
    assert judged(old, SyphonSettings(), NOW) is None
    assert old.time_to_live_ms == 1_000


def test_the_time_in_the_backlog_can_count() -> None:
    young = message(ttl_ms=1_000, enqueued_at=NOW - 400)
    assert judged(young, COUNTED, NOW) is None
    assert young.time_to_live_ms == 600
    fault = judged(message(ttl_ms=1_000, enqueued_at=NOW - 1_000), COUNTED, NOW)
    assert fault is not None
    assert fault.reason == "TTLExpiredException"


def test_a_scheduled_message_ages_from_when_it_is_due() -> None:
    due = message(ttl_ms=1_000, enqueued_at=0, scheduled_at=NOW - 100)
    assert judged(due, COUNTED, NOW) is None
    assert due.time_to_live_ms == 900
    later = message(ttl_ms=1_000, enqueued_at=0, scheduled_at=NOW + 100)
    assert judged(later, COUNTED, NOW) is None
    assert later.time_to_live_ms == 1_000


def test_a_message_without_a_time_to_live_never_expires() -> None:
    old = message(enqueued_at=0)
    assert judged(old, COUNTED, NOW) is None
    assert old.time_to_live_ms is None


def test_what_the_pair_does_not_cover_is_poison() -> None:
    settings = SyphonSettings(covers=lambda path: path == "orders")
    assert judged(message("orders"), settings, NOW) is None
    fault = judged(message("secret"), settings, NOW)
    assert fault is not None
    assert (fault.reason, "secret" in fault.description) == ("PathNotCovered", True)


def test_letter_case_does_not_part_an_entity() -> None:
    batch = [message("Orders", number=1), message("orders", number=2)]
    triage = Triage(batch, SyphonSettings(), NOW)
    assert triage.groups == {"Orders": batch}


@given(st.lists(st.sampled_from(("a", "b", "c", ""))))
def test_nothing_is_lost_and_order_is_kept(paths: list[str]) -> None:
    """An empty path stands for a message that cannot be read."""
    poison = Fault("MissingPath", "")
    batch = [
        message(path, number=number, fault=None if path else poison)
        for number, path in enumerate(paths)
    ]
    triage = Triage(batch, SyphonSettings(), NOW)
    sorted_out = [one for one, _ in triage.poison]
    for path, group in triage.groups.items():
        assert group == [one for one in batch if one.detour and one.detour.path == path]
        sorted_out += group
    assert sorted(one.sequence_number for one in sorted_out) == list(range(len(paths)))
