"""The auditor finds what it is there for."""

from .books import Audit, ReceivedBook, Seen, SentBook


def seen(name: str, attempt: int, number: int, locked_at: int = 1) -> Seen:
    return Seen(
        name=name, attempt=attempt, number=number, session_id="", locked_at=locked_at
    )


def in_session(name: str, number: int) -> Seen:
    return Seen(name=name, attempt=1, number=number, session_id="s", locked_at=1)


def audit_of(sent: SentBook, received: ReceivedBook) -> Audit:
    audit = Audit()
    audit.compare(sent, received)
    return audit


def test_acknowledged_message_that_nobody_got_is_lost() -> None:
    sent, received = SentBook(), ReceivedBook("q")
    for name in "ab":
        sent.sending(name, 1, 0)
    sent.acknowledged("a", 1)
    audit = audit_of(sent, received)
    assert [text[:6] for text in audit.lost] == ["q: ('a"]
    assert audit.twice == audit.broken == []
    assert not audit.is_clean()


def test_acknowledged_attempt_with_two_copies_is_found() -> None:
    sent, received = SentBook(), ReceivedBook("q")
    sent.sending("a", 1, 0)
    sent.acknowledged("a", 1)
    received.seen(seen("a", 1, 7))
    assert audit_of(sent, received).is_clean()
    received.seen(seen("a", 1, 8))
    assert len(audit_of(sent, received).twice) == 1


def test_unacknowledged_attempt_may_have_a_copy_of_its_own() -> None:
    sent, received = SentBook(), ReceivedBook("q")
    sent.sending("a", 1, 0)
    sent.sending("a", 2, 0)
    sent.acknowledged("a", 2)
    received.seen(seen("a", 1, 7))
    received.seen(seen("a", 2, 8))
    audit = audit_of(sent, received)
    assert audit.is_clean()
    assert audit.unacknowledged_copies == 1


def test_duplicate_detection_allows_one_copy_of_a_name() -> None:
    sent, received = SentBook(finds_duplicates=True), ReceivedBook("q")
    sent.sending("a", 1, 0)
    sent.sending("a", 2, 0)
    sent.acknowledged("a", 2)
    received.seen(seen("a", 1, 7))
    assert audit_of(sent, received).is_clean(), "the second attempt was a duplicate"
    received.seen(seen("a", 2, 8))
    assert len(audit_of(sent, received).twice) == 1


def test_settled_copy_that_is_locked_again_is_found() -> None:
    sent, received = SentBook(), ReceivedBook("q")
    sent.sending("a", 1, 0)
    received.seen(seen("a", 1, 7, locked_at=10))
    received.settled(7, 20)
    received.seen(seen("a", 1, 7, locked_at=15))
    assert audit_of(sent, received).is_clean(), "it was on its way before"
    received.seen(seen("a", 1, 7, locked_at=21))
    assert len(audit_of(sent, received).broken) == 1


def test_strangers_and_changed_messages_are_found() -> None:
    sent, received = SentBook(), ReceivedBook("q")
    sent.sending("a", 1, 0)
    received.seen(seen("a", 1, 7))
    received.seen(seen("b", 1, 7))
    received.seen(seen("c", 1, 8))
    assert len(audit_of(sent, received).broken) == 2


def test_session_that_goes_back_is_found() -> None:
    received = ReceivedBook("q")
    received.seen(in_session("a", 5))
    received.seen(in_session("b", 7))
    received.seen(in_session("a", 5))
    assert received.broken == []
    received.seen(in_session("c", 6))
    assert len(received.broken) == 1
