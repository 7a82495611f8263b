"""Refusals and servers that do not answer are told with what to do."""

import errno
import socket

import pytest

from twinbus.cli.refusals import lacking_right, no_answer
from twinbus.errors import UnauthorizedAccess


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ConnectionRefusedError(), "start one with 'twinbus serve'"),
        # asyncio's, for a host with an address of either version.
        (
            OSError(f"Multiple exceptions: [Errno {errno.ECONNREFUSED}] Connect ..."),
            "start one with 'twinbus serve'",
        ),
        (socket.gaierror(-2, "Name or service not known"), "no host of that name"),
        (TimeoutError(), "it took too long"),
        (OSError("no route"), "no route"),
    ],
)
def test_why_nobody_answers(error: OSError, why: str) -> None:
    text = no_answer("bus:5672", error)
    assert text.startswith("No server answers at bus:5672: ")
    assert why in text


@pytest.mark.parametrize(("entity", "what"), [("q", "'q'"), ("", "the namespace")])
def test_missing_right_is_named_with_its_key(entity: str, what: str) -> None:
    told = UnauthorizedAccess.missing("Listen", entity_path=entity).text
    text = lacking_right(f"{told} TrackingId:1", "shop", entity)
    assert text.startswith(f"The key 'shop' lacks the Listen right on {what}")


def test_other_refusals_stay_as_they_are() -> None:
    assert lacking_right("No. TrackingId:1", "shop", "q") == "No."
    told = UnauthorizedAccess.missing("Send", entity_path="q").text
    assert lacking_right(told, "", "q") == told
