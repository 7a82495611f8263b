"""What a broker says of itself: who it is, what it can read, which stores it owns.

It is kept in the catalog as a BrokerRecord. A description that a newer broker wrote may
have more in it; what this one does not know it ignores.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from twinbus.store.catalog import BrokerRecord
from twinbus.store.formats import FORMATS
from twinbus.store.process_identity import ProcessIdentity, process_of_json

OPENING: Final = 0
"""Stands for the epoch of a store that is being taken."""


@dataclass(frozen=True, slots=True)
class LeaseAge:
    """The lease of a store, as its holder knew it when it announced itself."""

    # 0: it ends with the process that holds it.
    term_ms: int
    # How long ago it was taken or renewed.
    age_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """A store that a broker took from another one that was gone."""

    store_uuid: bytes
    taken_at: int
    # For people: whom it was taken from.
    predecessor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """One broker, as it last announced itself."""

    broker_uuid: bytes
    # For people.
    name: str
    # Where other brokers reach it; empty: they do not.
    address: str
    beat: int
    process: ProcessIdentity
    # The newest format that it reads, by the kind of file: "catalog", "sqlite store".
    formats: Mapping[str, int]
    # The epochs of the stores that it owns, or OPENING.
    stores: Mapping[bytes, int] = field(default_factory=dict)
    # The leases of those that it serves.
    leases: Mapping[bytes, LeaseAge] = field(default_factory=dict)
    # Stores that it could own.
    reach: frozenset[bytes] = frozenset()
    # All that it was given, also those that it cannot reach.
    configured: frozenset[bytes] = frozenset()
    # Empty: not told.
    namespace: str = ""
    # In which its address has its meaning, if that is one of the machine itself.
    network: str = ""
    last_takeover: Takeover | None = None
    # It knows who serves each store, and none is about to move.
    is_settled: bool = False

    def record(self) -> BrokerRecord:
        """For the catalog."""
        description = {
            "name": self.name,
            "process": self.process.to_json(),
            FORMATS: dict(self.formats),
            "stores": {uuid.hex(): epoch for uuid, epoch in self.stores.items()},
            "leases": {
                uuid.hex(): [lease.term_ms, lease.age_ms]
                for uuid, lease in self.leases.items()
            },
            "reach": sorted(uuid.hex() for uuid in self.reach),
            "configured": sorted(uuid.hex() for uuid in self.configured),
            "namespace": self.namespace,
            "network": self.network,
            "settled": self.is_settled,
        }
        if self.last_takeover is not None:
            description["last_takeover"] = _takeover_json(self.last_takeover)
        return BrokerRecord(
            broker_uuid=self.broker_uuid,
            address=self.address,
            beat=self.beat,
            description=description,
        )


def announcement_of(record: BrokerRecord) -> Announcement | None:
    """What a broker announced; None if it cannot be read."""
    found = record.description
    try:
        return Announcement(
            broker_uuid=record.broker_uuid,
            name=str(found["name"]),
            address=record.address,
            beat=record.beat,
            process=process_of_json(found["process"]),
            formats={str(kind): int(n) for kind, n in found[FORMATS].items()},
            stores={bytes.fromhex(u): int(e) for u, e in found["stores"].items()},
            leases=_leases(found.get("leases", {})),
            reach=frozenset(map(bytes.fromhex, found["reach"])),
            configured=frozenset(map(bytes.fromhex, found.get("configured", ()))),
            namespace=str(found.get("namespace", "")),
            network=str(found.get("network", "")),
            last_takeover=_takeover(found.get("last_takeover")),
            is_settled=bool(found.get("settled", False)),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _leases(found: Mapping[str, Any]) -> dict[bytes, LeaseAge]:
    return {
        bytes.fromhex(uuid): LeaseAge(int(term_ms), int(age_ms))
        for uuid, (term_ms, age_ms) in found.items()
    }


def _takeover_json(takeover: Takeover) -> dict[str, Any]:
    return {
        "store": takeover.store_uuid.hex(),
        "taken_at": takeover.taken_at,
        "predecessor": takeover.predecessor,
    }


def _takeover(found: Mapping[str, Any] | None) -> Takeover | None:
    if found is None:
        return None
    return Takeover(
        store_uuid=bytes.fromhex(found["store"]),
        taken_at=int(found["taken_at"]),
        predecessor=str(found["predecessor"]),
    )
