"""`$namespaceinfo`: the namespace itself, which can be looked at only."""

from twinbus.gateway.administration.address import Address
from twinbus.gateway.administration.collection import etag
from twinbus.gateway.administration.ports import AdministeredNamespace
from twinbus.gateway.administration.xml_writing import (
    AtomEntry,
    description,
    element,
    instant,
)


def namespace_entry(namespace: AdministeredNamespace, address: Address) -> AtomEntry:
    """What there is to know. Units are for the premium tier, which this is not."""
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
