"""Writes docs/reference/errors.md from the table in twinbus/errors.py.

`make docs` runs it; a test compares the page with what it would write, so the
page cannot fall behind the code.
"""

from pathlib import Path

from twinbus.errors import ALL, ServiceBusError

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "errors.md"

OPENING = """\
# Errors

All errors that a client can get. AMQP carries the condition; HTTP and `$management`
answer with the status. *Retry* says whether the same request may succeed later
although nobody has changed anything.

The text names the entity, and the limit and the value if there is one. It ends
in `TrackingId:` and an id; the server's log has the details under the same id.

This page is generated from `src/twinbus/errors.py` by `make docs`.

| Error | Condition | Status | Retry | Text |
|---|---|---|---|---|
"""


def row(error: type[ServiceBusError]) -> str:
    text = error.default_text("...").replace("|", "\\|")
    retry = "yes" if error.retryable else "no"
    return (
        f"| {error.__name__} | `{error.condition}` | {error.http_status} "
        f"| {retry} | {text} |\n"
    )


def page() -> str:
    return OPENING + "".join(row(error) for error in ALL)


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())
