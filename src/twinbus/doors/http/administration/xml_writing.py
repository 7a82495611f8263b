"""Writes XML: elements, Atom entries and feeds.

The text is written by hand, because clients depend on details that a library would
choose itself: where a prefix is declared, and which attribute comes with it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from twinbus.instants import instant_of

ATOM: Final = "http://www.w3.org/2005/Atom"
SERVICE_BUS: Final = (
    "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
)
SCHEMA_INSTANCE: Final = "http://www.w3.org/2001/XMLSchema-instance"

_NEVER: Final = "0001-01-01T00:00:00Z"
# Characters that XML 1.0 cannot represent, even escaped.
_UNSPEAKABLE: Final = re.compile(
    "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


def element(name: str, text: str, attributes: str = "") -> str:
    """An element with text."""
    return f"<{name}{attributes}>{_escaped(text)}</{name}>"


def parent(name: str, children: str, attributes: str = "") -> str:
    """An element with child elements."""
    return f"<{name}{attributes}>{children}</{name}>"


def _escaped(text: str) -> str:
    # A carriage return would be read as a line feed.
    return escape(_UNSPEAKABLE.sub("\ufffd", text), {"\r": "&#13;"})


def boolean(value: bool) -> str:
    return "true" if value else "false"


def instant(at: int) -> str:
    """ISO 8601 in UTC; 0 means never."""
    if at == 0:
        return _NEVER
    moment = instant_of(at).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='milliseconds')}Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomEntry:
    """The entry around a description."""

    # JavaScript takes names from the id, Python and .NET from the title.
    id: str
    title: str
    author: str
    published_at: int
    updated_at: int
    # The description, as XML.
    content: str
    etag: str

    def text(self, attributes: str = "") -> str:
        return parent(
            "entry",
            element("id", self.id)
            + element("title", self.title, ' type="text"')
            + element("published", instant(self.published_at))
            + element("updated", instant(self.updated_at))
            + parent("author", element("name", self.author))
            + _link("self", self.id)
            + parent("content", self.content, ' type="application/xml"'),
            attributes,
        )


def entry_document(entry: AtomEntry) -> bytes:
    return entry.text(f' xmlns="{ATOM}"').encode()


def feed_document(
    *,
    id: str,
    title: str,
    updated_at: int,
    next_page: str | None,
    entries: Iterable[AtomEntry],
) -> bytes:
    """A page of entries. Python reads the next page only if there are two links."""
    links = _link("self", id)
    if next_page is not None:
        links += _link("next", next_page)
    return parent(
        "feed",
        element("title", title, ' type="text"')
        + element("id", id)
        + element("updated", instant(updated_at))
        + links
        + "".join(entry.text() for entry in entries),
        f' xmlns="{ATOM}"',
    ).encode()


def error_document(status: int, detail: str) -> bytes:
    children = element("Code", str(status)) + element("Detail", detail)
    return parent("Error", children).encode()


def description(name: str, children: Sequence[str]) -> str:
    """The content of an entry."""
    declared = f' xmlns="{SERVICE_BUS}" xmlns:i="{SCHEMA_INSTANCE}"'
    return parent(name, "".join(children), declared)


def _link(relation: str, address: str) -> str:
    return f'<link rel="{relation}" href={quoteattr(address)}/>'
