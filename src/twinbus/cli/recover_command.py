"""`twinbus recover`: brings back entities that the catalog has lost.

It works on the data folder itself, so the bus must not run. What to do is decided in
`entities/recovery_plan.py`; here it is started and reported.
"""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from twinbus.cli.bus_flags import FILES
from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import Json
from twinbus.cli.flags import setting_flag, takes

if TYPE_CHECKING:
    from twinbus.config.config import Config
    from twinbus.entities.recovery_plan import Recovered
    from twinbus.process.recovery import Recovery

EXAMPLES: Final = examples(
    "twinbus recover --data /var/lib/twinbus --dry-run",
    "twinbus recover --data /var/lib/twinbus",
)


@takes(
    *FILES,
    setting_flag("namespace", "Namespace of entities whose own is not known."),
)
def recover(
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    is_json: Json = False,
    **flags: Any,
) -> None:
    """Bring back entities that the store holds and the catalog does not know.

    For a catalog.sqlite3 that is lost, damaged or older than the message store. The
    bus must be stopped. Nothing is deleted, and a folder that lacks nothing stays as
    it is. A catalog that cannot be read is set aside under another name.
    """
    from twinbus.cli.settings import settings

    done = asyncio.run(_recovered(settings(**flags), is_dry_run))
    if is_json:
        documents = [_document(one, is_dry_run) for one in done]
        several = {"stores": documents, "is_dry_run": is_dry_run}
        print(json.dumps(documents[0] if len(done) == 1 else several, indent=2))
    else:
        for line in _lines(done, is_dry_run):
            print(line)


async def _recovered(config: "Config", is_dry_run: bool) -> "list[Recovery]":
    """Raises Failure."""
    from twinbus.cli import exit_codes
    from twinbus.cli.failure import Failure
    from twinbus.clock import SystemClock
    from twinbus.config.config import ConfigError
    from twinbus.process import recovery
    from twinbus.store.base import StoreError, StoreInUse

    try:
        now = SystemClock().now()
        return await recovery.recover(config, now, is_dry_run=is_dry_run)
    except StoreInUse as error:
        raise Failure(str(error), exit_codes.IN_USE) from None
    except (StoreError, OSError) as error:
        raise Failure(str(error), exit_codes.UNREADABLE) from None
    except ConfigError as error:
        raise Failure(str(error), exit_codes.USAGE) from None


def _document(done: "Recovery", is_dry_run: bool) -> dict[str, Any]:
    return {
        "store": done.store,
        "store_uuid": done.store_uuid.hex(),
        "catalog": done.catalog,
        "catalog_set_aside": done.set_aside,
        "is_dry_run": is_dry_run,
        "entities": [
            {
                "namespace": one.record.namespace,
                "path": one.record.path,
                "kind": one.record.kind,
                "generation": one.record.generation.hex(),
                "message_count": one.message_count,
                "recovered": one.how,
            }
            for one in done.entities
        ],
    }


def _lines(done: "list[Recovery]", is_dry_run: bool) -> list[str]:
    from twinbus.entities.strangers import counted

    first = done[0]
    if not any(one.is_needed() for one in done):
        return [f"The catalog {first.catalog} lacks nothing. Nothing was changed."]
    lines = []
    if first.set_aside is not None:
        verb = "would be" if is_dry_run else "was"
        lines.append(f"The catalog cannot be read, and {verb} moved to:")
        lines.append(f"  {first.set_aside}")
    entities = [entity for one in done for entity in one.entities]
    lines += map(_line, entities)
    messages = sum(one.message_count for one in entities)
    count = len({one.record.generation for one in entities})
    held = f"{counted(count, 'entity')} with {counted(messages, 'message')}"
    if is_dry_run:
        return [*lines, f"{held} would be recovered. Nothing was changed."]
    return [*lines, f"{held} recovered in {first.catalog}. Start the bus again."]


def _line(one: "Recovered") -> str:
    from twinbus.entities.recovery_plan import EMPTY, RENAMED
    from twinbus.entities.strangers import counted

    record = one.record
    text = f"{record.kind} '{record.path}' with {counted(one.message_count, 'message')}"
    if one.how == EMPTY:
        return f"{text}: the store held nothing of it"
    if one.how == RENAMED:
        return f"{text}: its own name is not known, or is in use"
    return text
