"""The error table: complete, unambiguous, with texts that say what to do."""

import subprocess
import sys

import pytest

from twinbus import errors
from twinbus.errors import ServiceBusError


def subclasses(root: type[ServiceBusError]) -> set[type[ServiceBusError]]:
    direct = set(root.__subclasses__())
    return direct.union(*(subclasses(child) for child in direct))


def test_table_lists_every_error() -> None:
    """Special cases of an error say no more on the wire than the error itself."""
    found = subclasses(ServiceBusError)
    special = {error for error in found if "condition" not in vars(error)}
    busy = {errors.StoreRefused, errors.Overtaken, errors.FragmentUnavailable}
    assert special == busy
    assert set(errors.ALL) == found - special


def test_condition_names_one_error() -> None:
    assert len(errors.BY_CONDITION) == len(errors.ALL)


@pytest.mark.parametrize("error", errors.ALL, ids=lambda error: error.__name__)
def test_error_says_all_of_itself(error: type[ServiceBusError]) -> None:
    assert {"condition", "http_status", "retryable"} <= set(vars(error))
    assert error.condition.startswith(("amqp:", "com.microsoft:", "twinbus:"))
    assert 200 <= error.http_status < 600
    text = error(entity_path="orders").text
    assert text.endswith(".")
    assert "{" not in text
    assert "\n" not in text


def test_missing_entity_is_told_in_the_words_that_sdks_recognise() -> None:
    error = errors.MessagingEntityNotFound(entity_path="orders")
    assert str(error) == "The messaging entity 'orders' could not be found."


def test_error_about_no_entity_is_about_the_namespace() -> None:
    text = errors.AuthenticationFailed().text
    assert text.startswith("The credentials for this namespace could not be")


def test_braces_in_an_entity_path_are_only_text() -> None:
    error = errors.MessagingEntityNotFound(entity_path="{0}{entity}")
    assert "'{0}{entity}'" in error.text


def test_description_ends_in_the_tracking_id() -> None:
    error = errors.ServerBusy("Wait.", entity_path="orders")
    assert error.description == "Wait."
    error.tracking_id = "abc"
    assert error.description == "Wait. TrackingId:abc"
    assert error.text == "Wait."


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        (
            errors.QuotaExceeded.measured(
                "size in bytes", limit=10, actual=11, entity_path="orders"
            ),
            ["'orders'", "size in bytes", "10", "11"],
        ),
        (
            errors.MessageSizeExceeded.measured(
                300, limit_bytes=256, entity_path="orders"
            ),
            ["'orders'", "300", "256"],
        ),
        (
            errors.ArgumentOutOfRange.measured(
                "lock_duration", value=0, lowest=5, highest=300, entity_path="orders"
            ),
            ["'orders'", "'lock_duration'", "0", "5", "300"],
        ),
        (
            errors.ArgumentError.about(
                "status",
                value="On",
                expected="Active or Disabled",
                entity_path="orders",
            ),
            ["'orders'", "'status'", "'On'", "Active or Disabled"],
        ),
        (
            errors.UnauthorizedAccess.missing("Send", entity_path="orders"),
            ["'orders'", "'Send' claim(s) are required"],
        ),
        (
            errors.MessageNotFound.numbered(42, entity_path="orders"),
            ["'orders'", "42"],
        ),
        (
            errors.SessionCannotBeLocked.named("blue", entity_path="orders"),
            ["'orders'", "'blue'"],
        ),
        (
            errors.SessionLockLost.named("blue", entity_path="orders"),
            ["'orders'", "'blue'"],
        ),
    ],
    ids=lambda case: type(case).__name__,
)
def test_measured_error_names_entity_limit_and_value(
    error: ServiceBusError, facts: list[str]
) -> None:
    assert [fact for fact in facts if fact not in error.text] == []
    assert error.entity_path == "orders"


def test_argument_without_an_entity_is_named_alone() -> None:
    error = errors.ArgumentOutOfRange.measured("count", value=9, lowest=1, highest=8)
    assert error.text == "The argument 'count' is 9; it must be between 1 and 8."


def test_condition_of_a_peer_becomes_its_error() -> None:
    error = errors.from_condition("com.microsoft:timeout", "Late.", entity_path="q")
    assert isinstance(error, errors.OperationTimeout)
    assert (error.text, error.entity_path) == ("Late.", "q")


def test_unknown_condition_of_a_peer_keeps_its_text() -> None:
    error = errors.from_condition("vendor:odd", "Odd.")
    assert type(error) is ServiceBusError
    assert error.text == "Odd."


def test_without_docstrings_the_condition_is_the_text() -> None:
    program = "from twinbus.errors import ServerBusy; print(ServerBusy().text)"
    command = [sys.executable, "-OO", "-c", program]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.strip() == "com.microsoft:server-busy"
