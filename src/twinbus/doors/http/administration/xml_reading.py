"""Reads untrusted XML into a small tree.

Clients use different prefixes for the same elements, so names are resolved and then
compared without their namespaces. Document types are refused, and with them entities,
by which a small document could become large. The size is limited by the request's, the
depth here.
"""

from typing import Final
from xml.parsers import expat

from twinbus.errors import ArgumentError
from twinbus.limits import XML_DEPTH

_SEPARATOR: Final = " "


class XmlElement:
    """An element; names are without namespaces."""

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
    parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
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

    @property
    def root(self) -> XmlElement:
        return self._open[0].children[0]

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) > XML_DEPTH:
            raise ArgumentError(
                f"The XML has elements more than {XML_DEPTH} deep, the limit."
            )
        own = {_local(key): value for key, value in attributes.items()}
        element = XmlElement(_local(name), own)
        self._open[-1].children.append(element)
        self._open.append(element)

    def end(self, name: str) -> None:
        self._open.pop()

    def characters(self, text: str) -> None:
        self._open[-1].text += text

    def document_type(self, *declaration: object) -> None:
        raise ArgumentError("The XML has a document type (DTD); send it without one.")


def _local(name: str) -> str:
    return name.rpartition(_SEPARATOR)[2]
