"""Stands in for the vendor's test kit, which is not published.

It has only the names that the tests import. Nothing is recorded or played back: every
test is live. Preparers make what a test needs, hand it over by name, and remove it
after the test, whether it passed or not. "Cached" preparers of the vendor share
entities between tests; here they do so only with SB_SHARE_ENTITIES=1, since messages
that a failed test leaves behind would fail others.
"""

import asyncio
import contextlib
import functools
import inspect
import os
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from livetests.target import target

from .resource_testcase import RESOURCE_GROUP_PARAM
from .sanitizers import (  # noqa: F401  the tests import them from here
    add_general_regex_sanitizer,
    add_oauth_response_sanitizer,
    add_remove_header_sanitizer,
    set_custom_default_matcher,
)

_IS_SHARING = os.environ.get("SB_SHARE_ENTITIES") == "1"
_NAME_CHARACTERS = 24
_RANDOM_CHARACTERS = 8

Test = Callable[..., Any]
Arguments = dict[str, Any]


class AzureTestError(Exception):
    """Raised by the vendor's preparers."""


class ReservedResourceNameError(Exception):
    """Raised by the vendor's preparers."""


class FakeResource:
    """What a recording would be played back with."""

    def __init__(self, name: str, id: str) -> None:
        self.name = name
        self.id = id


def get_region_override(default: str = "westus") -> str:
    return default


def is_live() -> bool:
    return True


def get_credential(is_async: bool = False, **kwargs: object) -> Any:
    """The root key: both kinds of client take it, and the server can check it.

    The tests have a token of an identity provider in its place.
    """
    if is_async:
        from azure.servicebus.aio import _base_handler_async as module
    else:
        from azure.servicebus import _base_handler as module
    return module.ServiceBusSharedKeyCredential(target().key_name, target().key)


class AzureRecordedTestCase:
    """Base of the vendor's test classes."""

    @staticmethod
    def await_prepared_test(test: Test) -> Test:
        @functools.wraps(test)
        def run(instance: object, *args: Any, **kwargs: Any) -> Any:
            return asyncio.run(test(instance, *args, **kwargs))

        return run


class AzureMgmtRecordedTestCase(AzureRecordedTestCase):
    """Base of the vendor's older test classes."""


def recorded_by_proxy(test: Test) -> Test:
    return test


def _accepted(test: Test, arguments: Arguments) -> Arguments:
    """Those of the arguments that the test takes."""
    parameters = inspect.signature(test).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return arguments
    names = {parameter.name for parameter in parameters}
    return {name: value for name, value in arguments.items() if name in names}


Prepare = Callable[[object, Arguments], contextlib.AbstractContextManager[Arguments]]


def _prepared(test: Test, prepare: Prepare, supplied: frozenset[str]) -> Test:
    """The test, run amid what `prepare` gives it.

    pytest must not see the parameters that are supplied: it would look for fixtures.
    """
    if inspect.iscoroutinefunction(test):

        @functools.wraps(test)
        async def wrapper(instance: object, **kwargs: Any) -> Any:
            with prepare(instance, kwargs) as arguments:
                return await test(instance, **_accepted(test, arguments))

    else:

        @functools.wraps(test)
        def wrapper(instance: object, **kwargs: Any) -> Any:
            with prepare(instance, kwargs) as arguments:
                return test(instance, **_accepted(test, arguments))

    if supplied:
        signature = inspect.signature(test)
        seen = [p for p in signature.parameters.values() if p.name not in supplied]
        wrapper.__signature__ = signature.replace(parameters=seen)  # type: ignore[attr-defined]
    wrapper.needs_server = True  # type: ignore[attr-defined]
    return wrapper


class AzureMgmtPreparer:
    """Base of the vendor's preparers, which make and remove one resource each."""

    is_live = True

    def __init__(
        self,
        name_prefix: str = "",
        random_name_length: int = _NAME_CHARACTERS,
        disable_recording: bool = True,
        playback_fake_resource: object = None,
        client_kwargs: object = None,
        random_name_enabled: bool = True,
    ) -> None:
        self.name_prefix = name_prefix
        self.random_name_length = random_name_length
        self.random_name_enabled = random_name_enabled
        self.resource_moniker = name_prefix
        self.resource_random_name: str | None = None
        self.resource: Any = None
        self.client: Any = None
        self.test_class_instance: object = None
        self._cache_key: tuple[str, ...] | None = None

    @property
    def moniker(self) -> str:
        return self.resource_moniker

    def set_cache(self, enabled: bool, *key: object) -> None:
        own = (type(self).__name__, self.name_prefix, *map(str, key))
        self._cache_key = own if enabled else None

    def create_mgmt_client(self, client: Callable[..., Any], **kwargs: Any) -> Any:
        return client(**kwargs)

    def create_resource(self, name: str, **kwargs: Any) -> Arguments:
        raise NotImplementedError

    def remove_resource(self, name: str, **kwargs: Any) -> None:
        raise NotImplementedError

    def _new_name(self) -> str:
        if self.resource_random_name:
            return self.resource_random_name
        room = min(self.random_name_length, _NAME_CHARACTERS) - len(self.name_prefix)
        return self.name_prefix + uuid.uuid4().hex[: max(_RANDOM_CHARACTERS, room)]

    @contextlib.contextmanager
    def _prepare(self, instance: object, arguments: Arguments) -> Iterator[Arguments]:
        self.test_class_instance = instance
        if _IS_SHARING and self._cache_key:
            yield {**arguments, **self._shared(arguments)}
            return
        name = self._new_name()
        everything = {**arguments, **self.create_resource(name, **arguments)}
        try:
            yield everything
        finally:
            self.remove_resource(name, **everything)

    def _shared(self, arguments: Arguments) -> Arguments:
        """What is shared among tests with the same parents; made for the first."""
        assert self._cache_key is not None
        parents = sorted(
            str(value.name)
            for value in arguments.values()
            if hasattr(value, "name") and hasattr(value, "id")
        )
        key = (*self._cache_key, getattr(self, "parameter_name", ""), *parents)
        if key not in _shared_resources:
            name = self._new_name()
            made = self.create_resource(name, **arguments)
            _shared_resources[key] = made
            remove = functools.partial(
                self.remove_resource, name, **{**arguments, **made}
            )
            _removals.append(remove)
        return _shared_resources[key]

    def __call__(self, test: Test) -> Test:
        return _prepared(test, self._prepare, frozenset())


_shared_resources: dict[tuple[str, ...], Arguments] = {}
_removals: list[Callable[[], None]] = []


def remove_shared_resources() -> None:
    """At the end of a process: what its tests shared, the last one first."""
    while _removals:
        _removals.pop()()


class ResourceGroupPreparer(AzureMgmtPreparer):
    """A resource group, which is only a name here."""

    def __init__(
        self,
        name_prefix: str = "",
        parameter_name: str = RESOURCE_GROUP_PARAM,
        **kwargs: object,
    ) -> None:
        super().__init__(name_prefix)
        self.parameter_name = parameter_name

    def create_resource(self, name: str, **kwargs: Any) -> Arguments:
        group = SimpleNamespace(name=name, id=name)
        return {self.parameter_name: group, "location": "westus"}

    def remove_resource(self, name: str, **kwargs: Any) -> None:
        pass


CachedResourceGroupPreparer = ResourceGroupPreparer
RandomNameResourceGroupPreparer = ResourceGroupPreparer


class PowerShellPreparer:
    """Supplies what the vendor's pipeline has in variables."""

    def __init__(self, directory: str, **values: object) -> None:
        self._names = frozenset(values)

    @contextlib.contextmanager
    def _prepare(self, instance: object, arguments: Arguments) -> Iterator[Arguments]:
        known = {
            "servicebus_connection_str": target().connection_string,
            "servicebus_fully_qualified_namespace": target().netloc,
            "servicebus_sas_policy": target().key_name,
            "servicebus_sas_key": target().key,
        }
        # The others name entities made beforehand, which no test uses.
        values = {name: known.get(name, name.replace("_", "-")) for name in self._names}
        yield {**arguments, **values}

    def __call__(self, test: Test) -> Test:
        return _prepared(test, self._prepare, self._names)


EnvironmentVariableLoader = PowerShellPreparer
