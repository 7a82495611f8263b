"""Reader leases of an entity as people see them: who reads it alone, and until when.

Meanwhile its receivers get nothing (`broker/reader_lease.py`), and who waits for
messages needs to know why.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from twinbus.broker.entity_path import EntityPath
from twinbus.broker.fragment import Fragment


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLease:
    """A lease of all fragments of an entity, or of one of its sub-queues."""

    path: str
    reader: str
    epoch: str
    # The last of its fragments; it may be renewed before.
    expires_at: int


def leases_of(
    path: str, loaded: Iterable[tuple[int, Fragment]], now: int
) -> list[ShownLease]:
    """The leases of fragments that this process serves, by their sub-queues. A leased
    fragment is always loaded."""
    return joined_leases(
        ShownLease(
            path=EntityPath(entity=path, sub_queue=sub_queue).text,
            reader=fragment.lease.reader,
            epoch=str(fragment.lease.epoch),
            expires_at=fragment.lease.expires_at,
        )
        for sub_queue, fragment in loaded
        if fragment.lease is not None
        and fragment.home.is_serving
        and fragment.lease.expires_at > now
    )


def joined_leases(found: Iterable[ShownLease]) -> list[ShownLease]:
    """Each lease once, though it is at several fragments and brokers."""
    longest: dict[tuple[str, str], ShownLease] = {}
    for lease in found:
        known = longest.get((lease.path, lease.reader))
        if known is None or lease.expires_at > known.expires_at:
            longest[lease.path, lease.reader] = lease
    return list(longest.values())
