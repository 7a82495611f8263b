"""Each reader lease is told once, with its latest end."""

from twinbus.entities.shown_leases import ShownLease, joined_leases


def lease(path: str, reader: str, expires_at: int) -> ShownLease:
    return ShownLease(path=path, reader=reader, epoch="1", expires_at=expires_at)


def test_leases_of_several_fragments_are_one() -> None:
    found = [lease("q", "a", 5), lease("q", "a", 9), lease("q", "a", 7)]
    assert joined_leases(found) == [lease("q", "a", 9)]


def test_other_entities_and_readers_are_kept_apart() -> None:
    found = [
        lease("q", "a", 5),
        lease("q/$DeadLetterQueue", "a", 5),
        lease("q", "b", 1),
    ]
    assert joined_leases(found) == found
