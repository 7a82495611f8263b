"""Normalizes the resource names of clients, so that they can be compared.

Each SDK writes the same entity in its own way: `amqps://host:5671/Orders`, `/orders`,
`sb://host/orders/$management`, percent-encoded or not. Here they all become `orders`. A
path covers another if it is a prefix of it by whole segments: `ord` does not cover
`orders`. The empty path is the namespace and covers everything.

Whether an entity exists is not checked here.
"""

from urllib.parse import unquote

_MANAGEMENT = "$management"


def address_path(address: str) -> str:
    """The entity path in a link address, with the client's case."""
    _, separator, rest = address.partition("://")
    if not separator:
        return unquote(address).strip("/")
    return _path_below_authority(rest)


def audience_path(audience: str) -> str:
    """The path that a token is put for; `$management` belongs to its entity."""
    return _without_management(address_path(audience).lower())


def scope_path(resource: str) -> str:
    """The path that a token's `sr` (decoded once) covers.

    Unlike an address, an `sr` always begins with a host, with or without a scheme:
    JavaScript signs `host:port` alone.
    """
    _, separator, rest = resource.partition("://")
    path = _path_below_authority(rest if separator else resource)
    return _without_management(path.lower())


def covers(scope: str, path: str) -> bool:
    """Whether the scope is the path itself or one of its parents.

    Both must be normalized by this module; case is ignored.
    """
    scope, path = scope.lower(), path.lower()
    return not scope or path == scope or path.startswith(f"{scope}/")


def scopes_above(path: str, longest: int) -> list[str]:
    """All scopes that cover the path, the narrowest first, ending with the empty one.
    Scopes longer than `longest` are left out, since a client's path may have any
    length."""
    scope = path[: longest + 1].lower()
    scopes = [scope]
    while scope:
        scope = scope.rpartition("/")[0]
        scopes.append(scope)
    return scopes


def belongs_to(entity: str, path: str) -> bool:
    """Whether the path is the entity, one of its sub-queues, or one of its
    subscriptions.

    Any other path that begins with its name and a slash is another entity: `a/b` does
    not belong to `a`. Everything belongs to the empty entity, the namespace.
    """
    entity, path = entity.lower(), path.lower()
    if not entity or path == entity:
        return True
    return path.startswith((f"{entity}/$", f"{entity}/subscriptions/"))


def _without_management(path: str) -> str:
    """Some SDKs put and sign tokens for the management node of an entity."""
    parent, _, last = path.rpartition("/")
    return parent if last == _MANAGEMENT else path


def _path_below_authority(rest: str) -> str:
    path = rest.partition("/")[2]
    for query_mark in "?#":
        path = path.partition(query_mark)[0]
    return unquote(path).strip("/")
