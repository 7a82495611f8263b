"""The part of a message that the flags of a command say."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.messages.message_draft import Draft, DraftError, property_of
from twinbus.cli.messages.message_json import TEXTS
from twinbus.clock import SystemClock
from twinbus.durations import duration_ms
from twinbus.encoding.typed_texts import TYPE_NAMES
from twinbus.instants import instant_ms


def flag_draft(flags: Mapping[str, Any], properties: Iterable[str]) -> Draft:
    """Raises Failure."""
    draft = {name: flags[name] for name in TEXTS if flags.get(name) is not None}
    try:
        _add_properties(draft, properties)
    except DraftError as error:
        text = str(error)
        raise Failure(f"{text[0].upper()}{text[1:]}.", exit_codes.USAGE) from None
    life = flags.get("time_to_live")
    if life is not None and (life_ms := duration_of(life, "--time-to-live")):
        draft["time_to_live_ms"] = life_ms
    if flags.get("schedule") is not None:
        draft["scheduled_time"] = _instant(flags["schedule"])
    body_type = flags.get("body_type")
    if body_type is not None:
        if body_type not in TYPE_NAMES:
            raise Failure(
                f"--body-type is '{body_type}'; there are {', '.join(TYPE_NAMES)}.",
                exit_codes.USAGE,
            )
        draft["amqp_types"] = {"body": f"value:{body_type}"}
    return draft


def duration_of(text: str, flag: str) -> int:
    """Milliseconds; 0: unlimited. Raises Failure."""
    try:
        return duration_ms(text)
    except ValueError as error:
        raise Failure(f"{flag}: {error}.", exit_codes.USAGE) from None


def _add_properties(draft: Draft, properties: Iterable[str]) -> None:
    values: dict[str, str] = {}
    types: dict[str, str] = {}
    for text in properties:
        name, type_name, value = property_of(text)
        values[name] = value
        if type_name is not None:
            types[name] = type_name
    if values:
        draft["application_properties"] = values
    if types:
        draft["application_property_types"] = types


def _instant(text: str) -> int:
    """A time, or a duration from now on."""
    try:
        return instant_ms(datetime.fromisoformat(text))
    except ValueError:
        pass
    try:
        return SystemClock().now() + duration_ms(text)
    except ValueError:
        raise Failure(
            f"--schedule is '{text}': write a time such as 2030-01-31T08:00:00Z, or a "
            "duration such as 5m.",
            exit_codes.USAGE,
        ) from None
