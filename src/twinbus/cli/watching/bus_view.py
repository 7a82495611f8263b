"""A look at a bus as text for a terminal, and as JSON for scripts."""

from dataclasses import asdict
from typing import Any, Final

from rich.cells import cell_len
from rich.text import Text

from twinbus.broker.transfer_queue import is_transfer_queue, primary_of
from twinbus.cli.entity_tables import readable_size
from twinbus.cli.tables import table_lines
from twinbus.cli.watching.bus_look import BusLook, EntityRow

_ACTIVE: Final = "Active"


def look_json(now: BusLook, rows: list[EntityRow]) -> dict[str, Any]:
    """For scripts; what it has does not change."""
    return {
        "connections": int(now.value("twinbus_connections")),
        "is_throttled": bool(now.value("twinbus_throttled")),
        "stores": _stores(now),
        "brokers": _brokers(now),
        "backlogs": _backlogs(rows),
        "entities": [asdict(row) for row in rows],
    }


def _stores(now: BusLook) -> list[dict[str, Any]]:
    owners = {
        labels["store"]: labels["broker"]
        for labels, _ in now.metrics.get("twinbus_store_owner_epoch", ())
    }
    return [
        {
            "store": labels["store"],
            "state": labels["state"],
            "broker": owners.get(labels["store"], ""),
        }
        for labels, value in now.metrics.get("twinbus_store_state", ())
        if value
    ]


def _brokers(now: BusLook) -> list[dict[str, str]]:
    alive = now.metrics.get("twinbus_broker_alive", ())
    return [dict(labels) for labels, value in alive if value]


def _backlogs(rows: list[EntityRow]) -> list[dict[str, Any]]:
    """Of each primary whose messages wait here."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row.kind == "queue" and is_transfer_queue(row.path):
            name = primary_of(row.path)
            one = found.setdefault(
                name, {"primary": name, "messages": 0, "dead_letters": 0}
            )
            one["messages"] += row.active + row.deferred
            one["dead_letters"] += row.dead_letter
    return list(found.values())


def heading_lines(now: BusLook, rows: list[EntityRow], where: str) -> list[Text]:
    """What concerns the whole bus."""
    connections = int(now.value("twinbus_connections"))
    active = sum(row.active for row in rows)
    dead = sum(row.dead_letter for row in rows)
    noun = "connection" if connections == 1 else "connections"
    told = f"{where}  {connections} {noun}  {active:,} active  {dead:,} dead"
    lines = [Text(told, "bold")]
    brokers = _brokers(now)
    if brokers:
        names = ", ".join(one["broker"] for one in brokers)
        lines.append(Text(f"brokers: {names}"))
    for store in _stores(now):
        if store["state"] not in ("serving", "elsewhere"):
            lines.append(Text(f"store {store['store']}: {store['state']}", "red"))
    if now.value("twinbus_throttled"):
        lines.append(Text("messages are refused to spare the bus", "red"))
    for backlog in _backlogs(rows):
        lines.append(
            Text(
                f"backlog of {backlog['primary']}: {backlog['messages']:,} messages, "
                f"{backlog['dead_letters']:,} dead letters"
            )
        )
    return lines + _pair_lines(now)


def _pair_lines(now: BusLook) -> list[Text]:
    """What a server tells that brings a backlog back."""
    if "twinbus_pair_syphon_running" not in now.metrics:
        return []
    is_running = now.value("twinbus_pair_syphon_running")
    is_up = now.value("twinbus_pair_primary_reachable")
    text = "pair: the syphon runs" if is_running else "pair: the syphon cannot run"
    text += ", the primary answers" if is_up else ", the primary does not answer"
    return [Text(text, "" if is_running and is_up else "red")]


def entity_lines(rows: list[EntityRow], width: int, *, is_short: bool) -> list[Text]:
    """A table of entities. The short form has what a terminal has room for. A status is
    shown where it is not what it usually is."""
    is_read = any(row.readers for row in rows)
    is_limited = any(row.status != _ACTIVE for row in rows)
    states = () if is_short else ("scheduled", "deferred")
    headings = (
        *(("name",) if is_short else ("name", "kind")),
        *("active", *states, "dead", "in/s", "out/s", "size"),
        *(("status",) if is_limited else ()),
        *(("read alone by",) if is_read else ()),
    )
    cells = [
        (
            *((row.path,) if is_short else (row.path, row.kind)),
            _count(row.active),
            *(() if is_short else (_count(row.scheduled), _count(row.deferred))),
            _count(row.dead_letter),
            _rate(row.in_per_second),
            _rate(row.out_per_second),
            readable_size(row.size_bytes),
            *(("" if row.status == _ACTIVE else row.status,) if is_limited else ()),
            *((", ".join(row.readers),) if is_read else ()),
        )
        for row in rows
    ]
    first = 1 if is_short else 2
    return table_lines(
        headings, cells, width, right=range(first, first + len(states) + 5)
    )


def _count(count: int) -> str:
    return f"{count:,}"


def _rate(rate: float | None) -> str:
    if rate is None:
        return ""
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def fitting_lines(rows: list[EntityRow], width: int, height: int) -> list[Text]:
    """The short table in so many lines: of the busiest entities, if there are more than
    fit."""
    count = len(rows)
    if count < height:
        table = entity_lines(rows, width, is_short=True)
        if height_of(table, width) <= height:
            return table
    # A line for each at least, one for the headings, and one for the rest.
    count = max(1, min(count, height - 2))
    while True:
        shown = busiest(rows, count)
        table = entity_lines(shown, width, is_short=True)
        if count == 1 or height_of(table, width) < height:
            table.append(Text(f"and {len(rows) - count:,} more", "dim"))
            return table
        count -= 1


def height_of(lines: list[Text], width: int) -> int:
    """With those that the terminal wraps."""
    return sum(max(1, -(-cell_len(line.plain) // width)) for line in lines)


def busiest(rows: list[EntityRow], count: int) -> list[EntityRow]:
    """So many that have the most messages, and move the most in a minute; in the order
    of their paths."""
    by_work = sorted(rows, key=lambda row: (-_work(row), row.path))
    return sorted(by_work[:count], key=lambda row: row.path)


def _work(row: EntityRow) -> float:
    moved = (row.in_per_second or 0) + (row.out_per_second or 0)
    return row.active + row.dead_letter + 60 * moved
