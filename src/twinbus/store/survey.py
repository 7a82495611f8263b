"""What a look at a store finds, for those who do not serve it."""

from dataclasses import dataclass

from twinbus.broker.changes import FragmentRecord, StoredEntity


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """As the store is at one moment."""

    store_uuid: bytes
    fragments: list[FragmentRecord]
    entities: list[StoredEntity]
