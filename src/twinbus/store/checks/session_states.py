"""Session states: the last one counts, and a session with one is known by it."""

from twinbus.broker.changes import ChangeSet, SessionState
from twinbus.store.checks.expectation import expect
from twinbus.store.checks.owner import NOW, Owner, message, owner_of
from twinbus.store.checks.places import StorePlace


def _state(
    session_id: str, state: bytes | None, at: int = NOW, number: int = 1
) -> SessionState:
    return SessionState(
        fragment_number=number, session_id=session_id, state=state, updated_at=at
    )


async def _put(owner: Owner, *states: SessionState) -> None:
    changes = ChangeSet()
    changes.session_states += states
    await owner.commit(changes)


async def check_states_are_kept(place: StorePlace) -> None:
    owner = await owner_of(place)
    large = bytes(range(256)) * 1024
    await _put(
        owner,
        _state("a", b"first"),
        _state("A", large),
        _state("", b"of the empty id"),
        _state("empty", b""),
        _state("a", b"elsewhere", number=2),
    )
    owner = await owner.reopened()
    state = owner.store.session_state
    expect(await state(1, "a"), b"first", "a state")
    expect(await state(1, "A") == large, True, "a large state")
    expect(await state(1, ""), b"of the empty id", "a state of the empty id")
    expect(await state(1, "empty"), b"", "an empty state is one")
    expect(await state(2, "a"), b"elsewhere", "a state of another fragment")
    expect(await state(1, "b"), None, "no state")
    expect(await state(3, "a"), None, "no state there")
    await owner.store.close()


async def check_states_are_replaced_and_cleared(place: StorePlace) -> None:
    owner = await owner_of(place)
    await _put(owner, _state("a", b"1"), _state("a", b"2"), _state("b", b"1"))
    state = owner.store.session_state
    expect(await state(1, "a"), b"2", "the last of a commit")
    await _put(owner, _state("a", b"3", NOW + 1))
    expect(await state(1, "a"), b"3", "the last of all")
    await _put(owner, _state("a", None, NOW + 2), _state("c", None, NOW + 2))
    expect(await state(1, "a"), None, "cleared")
    expect(await state(1, "b"), b"1", "others stay")
    expect(await owner.store.sessions(1, None, 9), ["b"], "nothing is kept of it")
    await _put(owner, _state("a", None), _state("a", b"4"), _state("b", None))
    expect(await state(1, "a"), b"4", "set again after it was cleared")
    expect(await owner.store.sessions(1, None, 9), ["a"], "one each")
    await owner.store.close()


async def check_sessions_with_messages_or_a_state(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.active_added += [
        message(1, i + 1, session_id=session_id) for i, session_id in enumerate("bdfb")
    ]
    changes.active_added.append(message(2, 1, session_id="other"))
    changes.session_states += [_state(i, b"x") for i in "acdg"]
    changes.session_states.append(_state("another", b"x", number=2))
    await owner.commit(changes)
    everything = list("abcdfg")
    found = await owner.store.sessions(1, None, 99)
    expect(found, everything, "sessions with messages or a state, each once")
    for limit in (1, 2, 4):
        portions: list[str] = []
        while portion := await owner.store.sessions(
            1, portions[-1] if portions else None, limit
        ):
            portions += portion
        expect(portions, everything, f"{limit} at a time")
    found = await owner.store.active_sessions(1, None, 99)
    expect(found, list("bdf"), "a state alone makes no session active")
    expect(await owner.store.sessions(3, None, 9), [], "none there")
    await owner.store.close()


async def check_sessions_by_the_time_of_their_state(place: StorePlace) -> None:
    owner = await owner_of(place)
    await _put(
        owner,
        _state("d", b"x", NOW + 4),
        _state("c", b"x", NOW + 1),
        _state("b", b"x", NOW + 2),
        _state("a", b"x", NOW + 3),
        _state("e", b"x", NOW + 9, number=2),
    )
    updated = owner.store.sessions_updated
    expect(await updated(1, NOW, None, 9), list("abcd"), "in the order of ids")
    expect(await updated(1, NOW + 1, None, 9), list("abd"), "after, not at")
    expect(await updated(1, NOW + 1, "a", 1), ["b"], "behind one, limited")
    expect(await updated(1, NOW + 4, None, 9), [], "none since")
    await _put(owner, _state("c", b"y", NOW + 5))
    expect(await updated(1, NOW + 4, None, 9), ["c"], "set again")
    await owner.store.close()


CHECKS = (
    check_states_are_kept,
    check_states_are_replaced_and_cleared,
    check_sessions_with_messages_or_a_state,
    check_sessions_by_the_time_of_their_state,
)
