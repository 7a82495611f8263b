"""`$namespaceinfo`: the properties of the namespace, read-only."""

from twinbus.doors.http.administration.address import Address
from twinbus.doors.http.administration.collection import etag
from twinbus.doors.http.administration.xml_writing import (
    AtomEntry,
    description,
    element,
    instant,
)
from twinbus.entities.namespace import Namespace


def namespace_entry(namespace: Namespace, address: Address) -> AtomEntry:
    """The entry of the namespace. Messaging units exist in the premium tier only."""
    content = description(
        "NamespaceInfo",
        (
            element("CreatedTime", instant(namespace.created_at)),
            element("MessagingSKU", "Standard"),
            element("ModifiedTime", instant(namespace.updated_at)),
            element("Name", namespace.name),
            element("NamespaceType", "Messaging"),
        ),
    )
    return AtomEntry(
        id=address.to("$namespaceinfo"),
        title=namespace.name,
        author=namespace.name,
        published_at=namespace.created_at,
        updated_at=namespace.updated_at,
        content=content,
        etag=etag({"name": namespace.name}, namespace.created_at, namespace.updated_at),
    )
