"""Shows the catalog of a bus, and moves it.

A catalog that was moved, or has not arrived yet, is shown as well: that is what people
want to know of it.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure, complain
from twinbus.cluster.running_brokers import announced_brokers
from twinbus.config.config import Config, ConfigError
from twinbus.entities.record_description import NAMESPACE
from twinbus.entities.store_entries import remembered_stores
from twinbus.process.catalog_moving import move_to
from twinbus.process.data_folder import DataFolder
from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.catalog_move import MovableCatalog
from twinbus.store.urls import without_password


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogReport:
    """A catalog, for people and programs."""

    location: str
    # "valid", "moved" or "arriving".
    state: str
    # Where it was moved to, or comes from; empty: neither.
    other_place: str
    version: int
    namespaces: list[str]
    # How many of each kind.
    entities: dict[str, int]
    # Where each store is, by its UUID.
    stores: dict[str, str]
    # Those that are announced, whether they run or not.
    brokers: list[str]


def run_show(config: Config, *, is_json: bool) -> None:
    """Raises Failure."""
    with _failures():
        catalog = DataFolder(config).kept_catalog()
        if not catalog.exists():
            raise Failure(
                f"There is no catalog {catalog.location}: see --data and --catalog.",
                exit_codes.NOT_FOUND,
            )
        report = asyncio.run(_reported(catalog))
    if is_json:
        print(json.dumps(asdict(report), indent=2))
        return
    for line in _lines(report):
        print(line)


async def _reported(catalog: MovableCatalog) -> CatalogReport:
    marks = await catalog.open_marked()
    try:
        content = await catalog.content()
        brokers = await announced_brokers(catalog)
    finally:
        await catalog.close()
    state = "moved" if marks.moved_to else "arriving" if marks.moved_from else "valid"
    kinds = Counter(one.kind for one in content.entities if one.kind != NAMESPACE)
    places = remembered_stores(content.entities)
    return CatalogReport(
        location=catalog.location,
        state=state,
        other_place=marks.moved_to or marks.moved_from,
        version=content.version,
        namespaces=sorted({one.namespace for one in content.entities}),
        entities=dict(sorted(kinds.items())),
        stores={uuid.hex(): place for place, uuid in sorted(places.items())},
        brokers=[one.name for one in brokers],
    )


def _lines(report: CatalogReport) -> Iterator[str]:
    yield f"catalog     {report.location}"
    if report.state == "moved":
        yield f"state       moved to {report.other_place}"
    elif report.state == "arriving":
        yield f"state       its move from {report.other_place} has not ended"
    yield f"version     {report.version}"
    yield f"namespaces  {', '.join(report.namespaces) or 'none'}"
    counts = [f"{count} {kind}" for kind, count in report.entities.items()]
    yield f"entities    {', '.join(counts) or 'none'}"
    for uuid, place in report.stores.items():
        yield f"store       {uuid} {place}"
    for name in report.brokers:
        yield f"broker      {name}"


def run_move(config: Config, to: str) -> None:
    """Raises Failure."""
    with _failures():
        moved = asyncio.run(move_to(config, to))
    entries = [one for one in moved.content.entities if one.kind != NAMESPACE]
    print(f"The catalog was moved to {moved.location}: {len(entries)} entities.")
    if moved.is_default:
        print("Start the bus without --catalog.")
    else:
        print(f"Start the bus with --catalog {without_password(to)}")
    if moved.key_note:
        complain(f"note: {moved.key_note}")


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
    except StoreInUse as error:
        raise Failure(str(error), exit_codes.IN_USE) from None
    except StoreError as error:
        raise Failure(str(error), exit_codes.UNREADABLE) from None
