"""Resources as clients name them, brought to the one form that is compared.

Each SDK writes the same entity in its own way: `amqps://host:5671/Orders`, `/orders`,
`sb://host/orders/$management`, percent-encoded or not. Here they all become
`orders`. A path covers another if it is a prefix of it by whole segments: `ord`
does not cover `orders`. The empty path is the namespace and covers everything.

It does not know whether an entity exists.
"""

from urllib.parse import unquote

_MANAGEMENT = "$management"


def address_path(address: str) -> str:
    """The entity path in a link address, spelled as the client spelled it."""
    _, separator, rest = address.partition("://")
    if not separator:
        return unquote(address).strip("/")
    return _path_below_authority(rest)


def audience_path(audience: str) -> str:
    """The path that a token is put for; `$management` belongs to its entity."""
    return _without_management(address_path(audience).lower())


def scope_path(resource: str) -> str:
    """The path that a token's `sr` (decoded once) covers.

    Unlike an address, an `sr` always begins with a host, with or without a
    scheme: JavaScript signs `host:port` alone.
    """
    _, separator, rest = resource.partition("://")
    path = _path_below_authority(rest if separator else resource)
    return _without_management(path.lower())


def covers(scope: str, path: str) -> bool:
    """Whether the scope is the path itself or one of its parents.

    Both are in the form that this file makes; letter case does not matter.
    """
    scope, path = scope.lower(), path.lower()
    return not scope or path == scope or path.startswith(f"{scope}/")


def scopes_above(path: str, longest: int) -> list[str]:
    """All that cover the path, the narrowest first, down to the empty one: as far as
    they have at most so many characters. A stranger's path may have any length."""
    scope = path[: longest + 1].lower()
    scopes = [scope]
    while scope:
        scope = scope.rpartition("/")[0]
        scopes.append(scope)
    return scopes


def belongs_to(entity: str, path: str) -> bool:
    """Whether the path is the entity, one of its sub-queues, or a subscription of it.

    What merely begins with its name and a slash is another entity: `a/b` is none of
    `a`. The empty entity is the namespace, to which everything belongs.
    """
    entity, path = entity.lower(), path.lower()
    if not entity or path == entity:
        return True
    return path.startswith((f"{entity}/$", f"{entity}/subscriptions/"))


def _without_management(path: str) -> str:
    """Some SDKs put tokens for, and sign, the management node of an entity."""
    parent, _, last = path.rpartition("/")
    return parent if last == _MANAGEMENT else path


def _path_below_authority(rest: str) -> str:
    path = rest.partition("/")[2]
    for query_mark in "?#":
        path = path.partition(query_mark)[0]
    return unquote(path).strip("/")
