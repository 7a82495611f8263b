"""Reads untrusted XML into a small tree.

Clients use different prefixes for the same elements, so names are compared without
them. A prefix must be declared, but is not resolved: with its namespace each name would
be as long as that one, and a small document would become large. Document types are
refused, and with them entities, for the same reason. The size is limited by the
request's, the depth here.
"""

from collections.abc import Collection
from typing import Final
from xml.parsers import expat

from twinbus.errors import ArgumentError
from twinbus.limits import XML_DEPTH

_SEPARATOR: Final = ":"
_DECLARATION: Final = "xmlns"
"""The name of attributes that declare the namespace of names without a prefix, and the
prefix of those that declare a prefix."""

_ALWAYS_DECLARED: Final = frozenset(("", "xml"))


class XmlElement:
    """An element; names are without prefixes."""

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.attributes = attributes
        self.children: list[XmlElement] = []
        self.text = ""

    def child(self, name: str) -> "XmlElement | None":
        """The first child of that name which is not nil."""
        for child in self.children:
            if child.name == name and child.attributes.get("nil") != "true":
                return child
        return None

    def value(self, name: str) -> str | None:
        """The text of a child, without white space around it."""
        child = self.child(name)
        return None if child is None else child.text.strip()

    @property
    def type_name(self) -> str:
        """The value of `xsi:type`, without its prefix."""
        return self.attributes.get("type", "").rpartition(":")[2]


def read_xml(document: bytes) -> XmlElement:
    """The root element. Raises ArgumentError."""
    builder = _Builder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters
    parser.StartDoctypeDeclHandler = builder.document_type
    try:
        parser.Parse(document, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        # The last two are raised for unknown encodings.
        raise ArgumentError(f"The body is not well-formed XML: {error}.") from None
    return builder.root


class _Builder:
    """Builds the tree from the parser's events."""

    def __init__(self) -> None:
        # The path from the document to the current element.
        self._open = [XmlElement("", {})]
        # The prefixes that each of them declares.
        self._declared: list[Collection[str]] = [_ALWAYS_DECLARED]

    @property
    def root(self) -> XmlElement:
        return self._open[0].children[0]

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) > XML_DEPTH:
            raise ArgumentError(
                f"The XML has elements more than {XML_DEPTH} deep, the limit."
            )
        names = [_parts(key) for key in attributes]
        self._declared.append(
            {local for prefix, local in names if prefix == _DECLARATION}
        )
        own = {
            self._known(*parts): value
            for parts, value in zip(names, attributes.values(), strict=True)
            if parts[0] != _DECLARATION and parts != ("", _DECLARATION)
        }
        element = XmlElement(self._known(*_parts(name)), own)
        self._open[-1].children.append(element)
        self._open.append(element)

    def _known(self, prefix: str, local: str) -> str:
        """The name without its prefix. Raises ArgumentError."""
        if not any(prefix in declared for declared in reversed(self._declared)):
            raise ArgumentError(
                f"The body is not well-formed XML: unbound prefix '{prefix[:60]}'."
            )
        return local

    def end(self, name: str) -> None:
        self._open.pop()
        self._declared.pop()

    def characters(self, text: str) -> None:
        self._open[-1].text += text

    def document_type(self, *declaration: object) -> None:
        raise ArgumentError("The XML has a document type (DTD); send it without one.")


def _parts(name: str) -> tuple[str, str]:
    """The prefix, which may be empty, and the name without it."""
    prefix, _, local = name.rpartition(_SEPARATOR)
    return prefix, local
