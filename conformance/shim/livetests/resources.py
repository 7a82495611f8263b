"""What the vendor's preparers ask of Azure Resource Manager, done on the server.

They make queues, topics and subscriptions before a test and delete them after it; here
the SDK's administration client does so. There is one namespace, the server under test.
Its HTTP interface has no rules of a namespace, so those are looked for elsewhere: the
root key for full rights, a rule given by a variable for a single right, or else a rule
of the same name and rights on the test's queue, and a note in the report.
"""

import base64
import functools
import secrets
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus._base_handler import ServiceBusSharedKeyCredential
from azure.servicebus.management import (
    AccessRights,
    AuthorizationRule,
    ServiceBusAdministrationClient,
)

from .target import note, target

_ALL_RIGHTS = ["Listen", "Manage", "Send"]
_NOTE_CHARACTERS = 300

# Queues that this process made and has not deleted yet.
_queues: set[str] = set()
# Connection strings, by the queue ("" for the namespace) and the name of the rule.
_rule_connection_strings: dict[tuple[str, str], str] = {}
_rule_keys: dict[tuple[str, str], str] = {}


@functools.cache
def administration() -> ServiceBusAdministrationClient:
    # One retry: a server that is not there must be reported at once.
    return ServiceBusAdministrationClient(
        target().netloc,
        credential=ServiceBusSharedKeyCredential(target().key_name, target().key),
        retry_total=1,
        retry_connect=1,
        retry_backoff_factor=0.2,
        connection_timeout=10,
        read_timeout=30,
    )


def _resource(name: str) -> SimpleNamespace:
    return SimpleNamespace(name=name, id=name)


def _options(model: Any) -> dict[str, Any]:
    """What the preparer set; the administration client has the same names."""
    values = model if isinstance(model, dict) else vars(model)
    return {name: value for name, value in values.items() if value is not None}


def _delete(delete: Callable[..., None], *path: str) -> None:
    try:
        delete(*path)
    except ResourceNotFoundError:
        pass  # the test deleted it itself
    except Exception as error:  # cleaning up is not what the test is about
        text = f"could not delete {'/'.join(path)}: {type(error).__name__}: {error}"
        note(text[:_NOTE_CHARACTERS])


def _new_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def _new_rule(name: str, rights: list[str]) -> AuthorizationRule:
    return AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=[AccessRights(right) for right in rights],
        key_name=name,
        primary_key=_new_key(),
        secondary_key=_new_key(),
    )


def _add_rule(queue: str, rule: AuthorizationRule) -> None:
    properties = administration().get_queue(queue)
    properties.authorization_rules = [*(properties.authorization_rules or []), rule]
    administration().update_queue(properties)


def _rights(model: Any) -> list[str]:
    return sorted(str(getattr(right, "value", right)) for right in model.rights)


class Queues:
    """Queues, and rules of queues."""

    def create_or_update(
        self, group: str, namespace: str, name: str, model: Any
    ) -> SimpleNamespace:
        administration().create_queue(name, **_options(model))
        _queues.add(name)
        return _resource(name)

    def delete(self, group: str, namespace: str, name: str) -> None:
        _queues.discard(name)
        _delete(administration().delete_queue, name)

    def create_or_update_authorization_rule(
        self, group: str, namespace: str, queue: str, name: str, model: Any
    ) -> SimpleNamespace:
        rule = _new_rule(name, _rights(model))
        _add_rule(queue, rule)
        _rule_keys[queue, name] = rule.primary_key
        return _resource(name)

    def list_keys(
        self, group: str, namespace: str, queue: str, name: str
    ) -> SimpleNamespace:
        key = _rule_keys[queue, name]
        return SimpleNamespace(
            key_name=name,
            primary_key=key,
            primary_connection_string=target().connection_string_of(name, key, queue),
        )

    def delete_authorization_rule(
        self, group: str, namespace: str, queue: str, name: str
    ) -> None:
        _rule_keys.pop((queue, name), None)  # the rule goes with its queue


class Topics:
    """Topics."""

    def create_or_update(
        self, group: str, namespace: str, name: str, model: Any
    ) -> SimpleNamespace:
        administration().create_topic(name, **_options(model))
        return _resource(name)

    def delete(self, group: str, namespace: str, name: str) -> None:
        _delete(administration().delete_topic, name)


class Subscriptions:
    """Subscriptions of topics."""

    def create_or_update(
        self, group: str, namespace: str, topic: str, name: str, model: Any
    ) -> SimpleNamespace:
        administration().create_subscription(topic, name, **_options(model))
        return _resource(name)

    def delete(self, group: str, namespace: str, topic: str, name: str) -> None:
        _delete(administration().delete_subscription, topic, name)


class Namespaces:
    """The server under test, which is the only one, and rules of it."""

    def begin_create_or_update(
        self, group: str, name: str, parameters: Any
    ) -> SimpleNamespace:
        return SimpleNamespace(result=lambda: _resource(target().netloc))

    def delete(self, group: str, name: str) -> None:
        pass

    def create_or_update_authorization_rule(
        self, group: str, namespace: str, name: str, model: Any
    ) -> SimpleNamespace:
        rights = _rights(model)
        if rights == _ALL_RIGHTS:
            found: str | None = target().connection_string
        else:
            found = target().restricted.get(rights[0]) if len(rights) == 1 else None
        _rule_connection_strings["", name] = found or _stand_in(name, rights)
        return _resource(name)

    def list_keys(self, group: str, namespace: str, name: str) -> SimpleNamespace:
        found = _rule_connection_strings.get(("", name))
        if found is not None:
            return SimpleNamespace(
                key_name=name, primary_key=None, primary_connection_string=found
            )
        return SimpleNamespace(
            key_name=target().key_name,
            primary_key=target().key,
            primary_connection_string=target().connection_string,
        )

    def delete_authorization_rule(self, group: str, namespace: str, name: str) -> None:
        _rule_connection_strings.pop(("", name), None)


def _stand_in(name: str, rights: list[str]) -> str:
    """A rule on each queue of the test, in place of one of the namespace."""
    rule = _new_rule(name, rights)
    for queue in list(_queues):
        _add_rule(queue, rule)
    note("a rule of the namespace replaced by one of the queue with the same rights")
    return target().connection_string_of(name, rule.primary_key)
