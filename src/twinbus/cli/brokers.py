"""Who owns what: the brokers of a cluster, as the catalog knows them.

A broker is alive if its beat rises while we look. One that is silent has ended, if that
can be seen from here, or is frozen.
"""

import asyncio
import json
from dataclasses import asdict, dataclass
from typing import Final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.tables import print_table
from twinbus.cluster.announcement import Announcement
from twinbus.cluster.broker_directory import owners_of_stores
from twinbus.cluster.running_brokers import announced_brokers
from twinbus.cluster.terms import BEAT_MS
from twinbus.config.config import Config, ConfigError
from twinbus.entities.store_entries import remembered_stores
from twinbus.instants import instant_of
from twinbus.process.data_folder import DataFolder
from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.catalog import Catalog
from twinbus.store.process_identity import is_running, is_visible

_LOOK_SECONDS: Final = 2 * BEAT_MS / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """One broker, for people and programs."""

    name: str
    # "alive", "silent" or "ended".
    state: str
    address: str
    host: str
    pid: int
    store_count: int
    # From whom it last took a store, and when; empty: from nobody.
    took_over_from: str
    took_over_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRow:
    """One store, for people and programs."""

    location: str
    uuid: str
    # The name of the broker; empty: none.
    owner: str
    # 0: it is being taken, or has no owner.
    epoch: int
    # 0: the lease ends with the owner's process. None: there is no owner, or it did not
    # tell.
    lease_term_ms: int | None
    # How long ago it was renewed when the owner last announced itself, which it does
    # once a second.
    lease_age_ms: int | None


def run_brokers(config: Config, *, is_json: bool) -> None:
    """Raises Failure."""
    try:
        catalog = DataFolder(config).kept_catalog()
        if not catalog.exists():
            raise Failure(
                f"There is no catalog {catalog.location}: see --data and --catalog.",
                exit_codes.NOT_FOUND,
            )
        brokers, stores = asyncio.run(_look(catalog))
    except ConfigError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
    except StoreInUse as error:
        raise Failure(str(error), exit_codes.IN_USE) from None
    except StoreError as error:
        raise Failure(str(error), exit_codes.UNREADABLE) from None
    if is_json:
        found = {
            "brokers": [asdict(row) for row in brokers],
            "stores": [asdict(row) for row in stores],
        }
        print(json.dumps(found, indent=2))
    else:
        _print(brokers, stores)


async def _look(catalog: Catalog) -> tuple[list[BrokerRow], list[StoreRow]]:
    places = remembered_stores(await catalog.open())
    try:
        before = {one.broker_uuid: one.beat for one in await announced_brokers(catalog)}
        if before:
            await asyncio.sleep(_LOOK_SECONDS)
        brokers = await announced_brokers(catalog)
    finally:
        await catalog.close()
    states = {one.broker_uuid: _state(one, before) for one in brokers}
    alive = [one for one in brokers if states[one.broker_uuid] == "alive"]
    owners = owners_of_stores(alive)
    return (
        [_broker_row(one, states[one.broker_uuid]) for one in brokers],
        [_store_row(place, uuid, owners) for place, uuid in sorted(places.items())],
    )


def _state(broker: Announcement, before: dict[bytes, int]) -> str:
    if before.get(broker.broker_uuid) != broker.beat:
        return "alive"
    if is_visible(broker.process) and not is_running(broker.process):
        return "ended"
    return "silent"


def _broker_row(broker: Announcement, state: str) -> BrokerRow:
    taken = broker.last_takeover
    return BrokerRow(
        name=broker.name,
        state=state,
        address=broker.address,
        host=broker.process.host,
        pid=broker.process.pid,
        store_count=len(broker.stores),
        took_over_from="" if taken is None else taken.predecessor,
        took_over_at="" if taken is None else instant_of(taken.taken_at).isoformat(),
    )


def _store_row(place: str, uuid: bytes, owners: dict[bytes, Announcement]) -> StoreRow:
    owner = owners.get(uuid)
    lease = None if owner is None else owner.leases.get(uuid)
    return StoreRow(
        location=place,
        uuid=uuid.hex(),
        owner="" if owner is None else owner.name,
        epoch=0 if owner is None else owner.stores[uuid],
        lease_term_ms=None if lease is None else lease.term_ms,
        lease_age_ms=lease.age_ms if lease is not None and lease.term_ms else None,
    )


def _print(brokers: list[BrokerRow], stores: list[StoreRow]) -> None:
    if not brokers:
        print("No broker is announced: the bus is stopped, or one process.")
    else:
        _print_brokers(brokers)
    if stores:
        print()
        _print_stores(stores)


def _print_brokers(brokers: list[BrokerRow]) -> None:
    print_table(
        ("broker", "state", "address", "process", "stores", "last takeover"),
        [
            (
                *(row.name, row.state, row.address, f"{row.pid} on {row.host}"),
                *(str(row.store_count), _takeover(row)),
            )
            for row in brokers
        ],
        right=(4,),
    )


def _print_stores(stores: list[StoreRow]) -> None:
    print_table(
        ("store", "owner", "epoch", "lease"),
        [
            (
                *(place.location, place.owner or "nobody", str(place.epoch or "")),
                _lease(place),
            )
            for place in stores
        ],
        right=(2,),
    )


def _takeover(row: BrokerRow) -> str:
    return f"from {row.took_over_from}, {row.took_over_at}" * bool(row.took_over_from)


def _lease(row: StoreRow) -> str:
    if row.lease_term_ms is None:
        return ""
    if row.lease_age_ms is None:
        return "ends with the process"
    age, term = row.lease_age_ms / 1000, row.lease_term_ms / 1000
    return f"{term:g} s, renewed {age:.1f} s ago"
