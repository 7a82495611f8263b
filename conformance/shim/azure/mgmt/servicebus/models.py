"""Stands in for the models of azure-mgmt-servicebus: bags of options."""

from enum import Enum
from typing import Any


class AccessRights(str, Enum):  # noqa: UP042  as the vendor's: str() gives the member
    """Rights of a rule."""

    manage = "Manage"
    send = "Send"
    listen = "Listen"


class _Model:
    def __init__(self, **options: Any) -> None:
        vars(self).update(options)


class SBQueue(_Model):
    """Options of a queue."""


class SBSubscription(_Model):
    """Options of a subscription."""


class SBAuthorizationRule(_Model):
    """Rights of a rule."""
