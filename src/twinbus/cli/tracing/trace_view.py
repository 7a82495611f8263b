"""What happened to a message, for people."""

from typing import Any, Final

from twinbus.cli.tables import console, print_table
from twinbus.cli.tracing.message_trace import MessageTrace

_SECONDS: Final = len("2026-11-17T22:47:21.121")


def print_trace(trace: MessageTrace) -> None:
    print_table(
        ("where", "time (UTC)", "operation", "number", "by", "details"),
        [
            (
                _where(event),
                str(event["occurred_at"])[:_SECONDS].replace("T", " "),
                _operation(event),
                str(event.get("sequence_number", "")),
                str(event.get("key_name") or event.get("client") or "the bus"),
                _details(event),
            )
            for event in trace.events
        ],
        right=(3,),
    )
    for gap in trace.gaps:
        text = f"The log of {gap['source']} has a gap: {gap['why']}."
        console().print(text, style="yellow", soft_wrap=True)


def _where(event: dict[str, Any]) -> str:
    path = str(event.get("entity", "?"))
    if "subqueue" in event:
        path += f"/{event['subqueue']}"
    namespace = event.get("namespace")
    return f"{namespace}: {path}" if namespace else path


def _operation(event: dict[str, Any]) -> str:
    result = event.get("result", "ok")
    operation = str(event["operation"])
    return operation if result == "ok" else f"{operation} ({result})"


def _details(event: dict[str, Any]) -> str:
    parts = [
        f"{name.replace('_', ' ')} {event[name]}"
        for name in ("destination", "reason", "session_id", "delivery_count")
        if event.get(name) not in (None, "", 0)
    ]
    return ", ".join(parts)
