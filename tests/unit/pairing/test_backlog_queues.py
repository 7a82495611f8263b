"""Backlog queues: their paths, and how they are created."""

from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError

from twinbus.pairing.backlog_queues import SETTINGS, find_or_make
from twinbus.pairing.errors import PairingError

AS_IT_WAS = SimpleNamespace(
    requires_duplicate_detection=False, requires_session=False, forward_to=None
)


class Queues:
    """An administration client of a namespace that has these queues."""

    def __init__(self, *paths: str) -> None:
        self.settings: dict[str, Any] = dict.fromkeys(paths, AS_IT_WAS)
        self.made_by_another: set[str] = set()

    async def get_queue(self, path: str) -> Any:
        if path not in self.settings:
            raise ResourceNotFoundError(path)
        return self.settings[path]

    async def create_queue(self, path: str, **settings: Any) -> Any:
        if path in self.made_by_another:
            self.settings[path] = "another's"
            raise ResourceExistsError(path)
        self.settings[path] = settings
        return settings


async def test_all_are_made_with_the_settings_of_p4() -> None:
    queues = Queues()
    paths = await find_or_make(queues, "contoso", 2)
    assert paths == (
        "contoso/x-servicebus-transfer/0",
        "contoso/x-servicebus-transfer/1",
    )
    assert queues.settings == {path: SETTINGS for path in paths}


async def test_existing_ones_are_used_as_they_are_and_surplus_ones_left_alone() -> None:
    there = [f"contoso/x-servicebus-transfer/{index}" for index in range(3)]
    queues = Queues(*there)
    assert await find_or_make(queues, "contoso", 1) == (there[0],)
    assert queues.settings == dict.fromkeys(there, AS_IT_WAS)


@pytest.mark.parametrize("setting", vars(AS_IT_WAS))
async def test_one_that_would_lose_messages_is_spoken_of(
    setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = "contoso/x-servicebus-transfer/0"
    queues = Queues(path)
    await find_or_make(queues, "contoso", 1)
    assert caplog.messages == []
    queues.settings[path] = SimpleNamespace(**{**vars(AS_IT_WAS), setting: "set"})
    assert await find_or_make(queues, "contoso", 1) == (path,)
    [line] = caplog.messages
    assert path in line and setting in line


async def test_a_queue_that_another_process_makes_first_is_used() -> None:
    queues = Queues()
    queues.made_by_another.add("contoso/x-servicebus-transfer/0")
    [path] = await find_or_make(queues, "contoso", 1)
    assert queues.settings[path] == "another's"


async def test_an_entity_of_another_kind_at_the_path_is_an_error() -> None:
    class Topic(Queues):
        async def create_queue(self, path: str, **settings: Any) -> Any:
            raise ResourceExistsError("a topic has this path")

    with pytest.raises(PairingError, match="'contoso/x-servicebus-transfer/0'"):
        await find_or_make(Topic(), "contoso", 1)
