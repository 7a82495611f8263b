"""Which sessions are held, and which one is next, from what is in memory."""

from twinbus.broker.sessions import Sessions
from twinbus.limits import FREE_SESSIONS

from .world import NOW


def taken(sessions: Sessions) -> list[str]:
    """All that are free, in the order in which they are had."""
    found = []
    while (session_id := sessions.take_free()) is not None:
        found.append(session_id)
    return found


def known(*session_ids: str) -> Sessions:
    """Sessions of which the store has no more than these."""
    sessions = Sessions()
    sessions.learn(list(session_ids), is_last=True)
    return sessions


def test_nothing_is_known_at_first() -> None:
    sessions = Sessions()
    assert sessions.wants_more()
    assert sessions.take_free() is None
    sessions.learn([], is_last=True)
    assert not sessions.wants_more()


def test_store_is_read_in_portions_behind_a_cursor() -> None:
    sessions = Sessions()
    sessions.learn(["a", "b"], is_last=False)
    assert sessions.cursor == "b"
    assert not sessions.wants_more()
    assert taken(sessions) == ["a", "b"]
    assert sessions.wants_more()
    sessions.learn(["c"], is_last=True)
    assert taken(sessions) == ["c"]
    assert not sessions.wants_more()


def test_news_and_what_the_store_has_take_turns() -> None:
    sessions = known("x", "y", "z")
    for session_id in ("1", "2"):
        sessions.note_free(session_id)
    assert taken(sessions) == ["x", "1", "y", "2", "z"]


def test_busy_sessions_do_not_keep_those_waiting_that_only_the_store_knows() -> None:
    sessions = Sessions()
    sessions.learn(["a", "b"], is_last=False)
    granted = set()
    for _ in range(10):
        if sessions.wants_more():
            sessions.learn(["c", "d"], is_last=True)
        session_id = sessions.take_free()
        assert session_id is not None
        granted.add(session_id)
        sessions.note_free(session_id)
    assert granted == {"a", "b", "c", "d"}


def test_session_is_noted_once_until_it_is_taken() -> None:
    sessions = known()
    for _ in range(3):
        sessions.note_free("a")
    assert taken(sessions) == ["a"]
    sessions.note_free("a")
    assert taken(sessions) == ["a"]


def test_news_that_does_not_fit_is_found_by_another_pass() -> None:
    sessions = known()
    for number in range(FREE_SESSIONS + 1):
        sessions.note_free(f"{number}")
    assert sessions.has_unknown
    assert len(taken(sessions)) == FREE_SESSIONS
    assert sessions.wants_more()
    assert sessions.cursor is None
    sessions.learn([f"{FREE_SESSIONS}"], is_last=True)
    # It may have been forgotten while the pass was under way.
    sessions.learn([], is_last=True)
    assert not sessions.has_unknown


def test_held_session_is_passed_over() -> None:
    sessions = known("a", "b")
    sessions.hold("a", NOW, 0)
    sessions.note_free("a")
    assert taken(sessions) == ["b"]


def test_session_that_was_given_up_is_free_after_the_commit() -> None:
    sessions = known()
    session = sessions.hold("a", NOW, 0)
    sessions.release(session)
    assert sessions.live("a") is None
    assert taken(sessions) == []
    sessions.freed(sessions.seal())
    assert sessions.held == {}
    assert taken(sessions) == ["a"]
    assert sessions.seal() == []


def test_commit_that_frees_a_session_does_not_free_its_next_hold() -> None:
    sessions = known()
    old = sessions.hold("a", NOW, 0)
    sessions.release(old)
    new = sessions.hold("a", NOW, 0)
    sessions.freed(sessions.seal())
    assert sessions.live("a") is new


def test_locks_end_in_order_and_renewal_puts_off() -> None:
    sessions = Sessions()
    first = sessions.hold("a", NOW + 10, 0)
    second = sessions.hold("b", NOW + 20, 0)
    sessions.renew(first, NOW + 30)
    assert sessions.ended(NOW + 19) == []
    assert sessions.ended(NOW + 20) == [second]
    assert sessions.ended(NOW + 30) == [second, first]


def test_lock_of_a_shorter_duration_ends_in_time() -> None:
    """The queue was updated, or the clock set back."""
    sessions = Sessions()
    sessions.hold("long", NOW + 100, 0)
    short = sessions.hold("short", NOW + 10, 0)
    assert sessions.ended(NOW + 10) == [short]
    assert list(sessions.held) == ["short", "long"]


def test_session_that_was_given_up_does_not_end() -> None:
    sessions = Sessions()
    sessions.release(sessions.hold("a", NOW, 0))
    assert sessions.ended(NOW) == []


def test_renewals_leave_nothing_behind() -> None:
    sessions = Sessions()
    session = sessions.hold("a", NOW, 0)
    for later in range(1000):
        sessions.renew(session, NOW + later)
    assert list(sessions.held.values()) == [session]
    assert sessions.has_timers()


def test_news_of_a_session_is_told_once() -> None:
    sessions = Sessions()
    session = sessions.hold("a", NOW, 0)
    sessions.stir(session)
    sessions.stir(session)
    assert sessions.take_stirred() == [session]
    assert sessions.take_stirred() == []
    sessions.stir(session)
    assert sessions.take_stirred() == [session]
