"""Prints messages: for people, as JSON lines, or their bodies alone.

What strangers wrote into a message goes to a terminal without control characters; a
body alone (`--body`) is written as it is. Nothing is buffered: when a message is
settled, it was printed.
"""

import json
import sys
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from rich.markup import escape

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure, NobodyReads
from twinbus.cli.tables import console, one_line

_SHOWN: Final = (
    *("session_id", "partition_key", "subject", "correlation_id", "content_type"),
    *("to", "reply_to", "reply_to_session_id", "state", "scheduled_time"),
    *("expires_at", "dead_letter_source"),
    *("dead_letter_reason", "dead_letter_description"),
)
"""Fields that are shown below the heading, if a message has them."""


class MessageOutput:
    """Where a command prints the messages that it gets."""

    def __init__(self, *, is_json: bool, is_body: bool) -> None:
        self._is_json = is_json
        self._is_body = is_body
        self._console = None if is_json or is_body else console()
        # JSON is not to depend on what a terminal can show.
        self._is_ascii = "utf" not in (sys.stdout.encoding or "").lower()

    def write(self, messages: Iterable[dict[str, Any]]) -> None:
        """Raises NobodyReads, Failure."""
        try:
            self._write(messages)
        # Neither is to be taken for an error of the connection.
        except BrokenPipeError:
            raise NobodyReads from None
        except OSError as error:
            raise Failure(
                f"Messages can't be written: {error.strerror}. Those that were not "
                "are still there, unless --delete was given.",
                exit_codes.FAILED,
            ) from None

    def written(
        self, progress: Callable[[int], None]
    ) -> Callable[[Sequence[dict[str, Any]]], None]:
        """`write`, which tells how many messages it has written."""
        done = 0

        def write(messages: Sequence[dict[str, Any]]) -> None:
            nonlocal done
            self.write(messages)
            done += len(messages)
            progress(done)

        return write

    def _write(self, messages: Iterable[dict[str, Any]]) -> None:
        for message in messages:
            if self._is_json:
                text = json.dumps(message, ensure_ascii=self._is_ascii)
                sys.stdout.write(text + "\n")
            elif self._is_body:
                sys.stdout.flush()
                sys.stdout.buffer.write(_content(message) + b"\n")
            else:
                for line in shown_lines(message):
                    assert self._console is not None
                    self._console.print(line, soft_wrap=True)
        sys.stdout.flush()


def shown_lines(message: dict[str, Any]) -> list[str]:
    """A message for people, with rich's markup."""
    heading = f"[bold]#{message.get('sequence_number', '?')}[/bold]"
    if "message_id" in message:
        heading += f"  {_plain(message['message_id'])}"
    if "enqueued_time" in message:
        heading += f"  [dim]{message['enqueued_time']}[/dim]"
    if message.get("delivery_count"):
        heading += f"  [dim]delivered before: {message['delivery_count']}[/dim]"
    lines = [heading]
    lines += [
        f"  [dim]{name.replace('_', ' ')}:[/dim] {_plain(message[name])}"
        for name in _SHOWN
        if name in message and message[name] != "active"
    ]
    types = message.get("application_property_types", {})
    for name, value in message.get("application_properties", {}).items():
        kind = types.get(name, "").partition(":")[0]
        suffix = f" [dim]({kind})[/dim]" if kind else ""
        lines.append(f"  {_plain(name)} = {_plain(value)}{suffix}")
    return lines + _body_lines(message)


def _body_lines(message: dict[str, Any]) -> list[str]:
    if "body" in message:
        lines = [f"  {_plain(line)}" for line in message["body"].splitlines()]
        return lines or ["  [dim](empty body)[/dim]"]
    if "body_base64" in message:
        size = len(b64decode(message["body_base64"]))
        return [f"  [dim]({size} bytes that are no text)[/dim]"]
    return ["  [dim](no body)[/dim]"]


def _plain(value: object) -> str:
    return escape(one_line(str(value)))


def _content(message: dict[str, Any]) -> bytes:
    if "body_base64" in message:
        return b64decode(message["body_base64"])
    text: str = message.get("body", "")
    return text.encode()
