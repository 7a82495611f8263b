"""Refusals and servers that do not answer are told with what to do."""

import errno
import socket
import ssl

import pytest

from twinbus.cli.refusals import lacking_right, no_answer, not_trusted
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
        (ConnectionResetError(104, "reset"), "does the connection string ask for TLS"),
        (TimeoutError(), "it took too long"),
        (OSError("no route"), "no route"),
    ],
)
def test_why_nobody_answers(error: OSError, why: str) -> None:
    text = no_answer("bus:5672", error)
    assert text.startswith("No server answers at bus:5672: ")
    assert why in text


def test_certificate_is_told_with_what_is_wrong() -> None:
    error = ssl.SSLCertVerificationError(1, "it failed")
    error.reason = "CERTIFICATE_VERIFY_FAILED"
    error.verify_message = "Hostname mismatch, certificate is not valid for 'bus'."
    text = not_trusted("bus:5671", error)
    assert "can't be trusted: Hostname mismatch, certificate is not" in text
    other = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    other.reason = "WRONG_VERSION_NUMBER"
    assert "bus:5671 speaks no TLS" in not_trusted("bus:5671", other)


@pytest.mark.parametrize(("entity", "what"), [("q", "'q'"), ("", "the namespace")])
def test_missing_right_is_named_with_its_key(entity: str, what: str) -> None:
    told = UnauthorizedAccess.missing("Listen", entity_path=entity).text
    text = lacking_right(f"{told} TrackingId:1", "shop", entity)
    assert text.startswith(f"The key 'shop' lacks the Listen right on {what}")


def test_other_refusals_stay_as_they_are() -> None:
    assert lacking_right("No. TrackingId:1", "shop", "q") == "No."
    told = UnauthorizedAccess.missing("Send", entity_path="q").text
    assert lacking_right(told, "", "q") == told
