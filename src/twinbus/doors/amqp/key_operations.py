"""Authorization rules over `$management` of the namespace, for `twinbus keys`.

An empty `path` means the namespace itself. Keys are in an answer only if the request
asks for them (`with_keys`): what is printed and logged otherwise has none.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.doors.amqp.request_links import Request
from twinbus.doors.amqp.request_values import text_argument
from twinbus.encoding.json_reading import read_texts
from twinbus.entities.namespace import Namespace


class KeyOperations:
    """These operations on one namespace; the caller has checked the Manage claim."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def by_name(self) -> dict[str, Callable[[Request], Awaitable[object]]]:
        return {
            "list-keys": self._list,
            "create-key": self._create,
            "regenerate-key": self._regenerate,
            "delete-key": self._delete,
        }

    async def _list(self, request: Request) -> object:
        path = _path(request)
        found = self._namespace.keys.rules(path)
        return [
            {**_described(listed.rule, path, request), "is_fixed": listed.is_fixed}
            for listed in found
        ]

    async def _create(self, request: Request) -> object:
        path = _path(request)
        made = await self._namespace.keys.create(
            path,
            text_argument(request, "key_name"),
            _texts(request, "rights"),
            _optional_text(request, "primary_key"),
            _optional_text(request, "secondary_key"),
        )
        return _described(made, path, request)

    async def _regenerate(self, request: Request) -> object:
        path = _path(request)
        name, which = text_argument(request, "key_name"), text_argument(request, "key")
        renewed = await self._namespace.keys.regenerate(path, name, which)
        return _described(renewed, path, request)

    async def _delete(self, request: Request) -> object:
        name = text_argument(request, "key_name")
        await self._namespace.keys.delete(_path(request), name)
        return None


def _described(rule: AccessRule, path: str, request: Request) -> dict[str, Any]:
    described: dict[str, Any] = {
        "key_name": rule.key_name,
        "entity_path": path or None,
        "rights": list(rule.rights),
    }
    if request.optional("with_keys") == "yes":
        described["primary_key"] = rule.primary_key
        described["secondary_key"] = rule.secondary_key
    return described


def _path(request: Request) -> str:
    return text_argument(request, "path").strip("/")


def _optional_text(request: Request, name: str) -> str:
    return "" if request.optional(name) is None else text_argument(request, name)


def _texts(request: Request, name: str) -> list[str]:
    return read_texts(text_argument(request, name), f"'{name}'")
