"""Sending to a primary over the SDK: how refused messages are handled."""

from collections.abc import Sequence
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, exceptions

from twinbus.pairing.detour import PATH, RESTORED_FROM, SEND_ID
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.sdk_syphon.messages import SdkMessage
from twinbus.pairing.sdk_syphon.outlet import SdkOutlet
from twinbus.testing.clock import ManualClock

from .test_messages import received

IDS = {SEND_ID.encode(), RESTORED_FROM.encode()}


class Entity:
    """An entity of a primary, and the door to it."""

    def __init__(self, *, takes_ids: bool, takes: str = "") -> None:
        self._takes_ids = takes_ids
        # Only messages whose body has this.
        self._takes = takes
        self.bodies: list[str] = []

    def door(self, path: str) -> "Entity":
        return self

    async def send_some(
        self, messages: Sequence[ServiceBusMessage], timeout_seconds: float
    ) -> int:
        for message in messages:
            has_ids = bool(IDS & set(message.raw_amqp_message.annotations or {}))
            if (has_ids and not self._takes_ids) or self._takes not in str(message):
                raise exceptions.MessageSizeExceededError(message="too large")
        self.bodies += [str(message) for message in messages]
        return len(messages)


def outlet_of(entity: Any) -> SdkOutlet:
    async def reach(timeout_seconds: float) -> bool:
        return True

    return SdkOutlet(entity, reach, ManualClock(0))


def backlog(*bodies: bytes) -> list[SdkMessage]:
    return [received({PATH: "orders"}, body) for body in bodies]


@pytest.mark.parametrize("takes_ids", [True, False])
async def test_what_fits_without_the_ids_goes_without_them(takes_ids: bool) -> None:
    entity = Entity(takes_ids=takes_ids)
    restored = await outlet_of(entity).restore("orders", backlog(b"a", b"b"), 1.0)
    assert (restored.count, restored.refusal) == (2, None)
    assert entity.bodies == ["a", "b"]


async def test_what_is_too_large_all_the_same_is_refused() -> None:
    entity = Entity(takes_ids=False, takes="good")
    messages = backlog(b"good", b"large", b"good as well")
    restored = await outlet_of(entity).restore("orders", messages, 1.0)
    assert restored.count == 1
    assert restored.refusal is not None
    assert restored.refusal.kind is FailureKind.TOO_LARGE
    assert entity.bodies == ["good"]
