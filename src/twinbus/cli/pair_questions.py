"""What commands about pairs ask the two namespaces, and do at the secondary."""

import asyncio
from collections.abc import Sequence
from typing import Final

from azure.core.exceptions import AzureError
from azure.servicebus.exceptions import SessionCannotBeLockedError
from azure.servicebus.management import EntityStatus

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.pair_report import PairReport
from twinbus.cli.pair_rights import lacking_rights
from twinbus.cli.sdk_side import (
    PATIENCE_SECONDS,
    SdkSide,
    opened,
    reach,
    told_as_failure,
)
from twinbus.cli.server_address import parse_connection_string
from twinbus.clock import SystemClock
from twinbus.pairing.backlog_status import BacklogSurvey
from twinbus.pairing.backlog_survey import survey_backlog
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.primary_name import primary_name as name_of
from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.pairing.syphon.settings import LEASE_SESSION

_PRIMARY: Final = "The primary"
_SECONDARY: Final = "The secondary"


async def pair_report(primary: str, secondary: str, name: str | None) -> PairReport:
    """How the pair is. Raises Failure."""
    async with (
        opened(primary, _PRIMARY) as first,
        opened(secondary, _SECONDARY) as second,
    ):
        found = _checked_name(first.host, name)
        of_first, of_second = await asyncio.gather(reach(first), reach(second))
        survey, lease, lacking = None, "unknown", None
        if of_second.is_up:
            with told_as_failure(second):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    survey, lease = await _survey(second, found)
        if survey is not None and of_first.is_up:
            lacking = await lacking_rights(
                *(first, second), [one.path for one in survey.queues], survey.entities
            )
        return PairReport(
            primary_name=found,
            primary_host=first.host,
            primary=of_first,
            secondary_host=second.host,
            secondary=of_second,
            survey=survey,
            lease=lease,
            lacking=lacking,
            now=SystemClock().now(),
        )


async def _survey(side: SdkSide, name: str) -> tuple[BacklogSurvey, str]:
    """The backlog and the lease; without a look into queues that may not be listened
    to, which is told with the other rights that are missing."""
    try:
        survey = await survey_backlog(side.administration, side.client, name)
        return survey, await _lease(side, survey.lease)
    except AzureError as error:
        if kind_of(error) is not FailureKind.AUTHORIZATION:
            raise
    survey = await survey_backlog(side.administration, side.client, name, peek_count=0)
    return survey, "unknown"


async def _lease(side: SdkSide, path: str | None) -> str:
    """Whether a server runs the syphon: it holds the lock of a session then.

    There is no way to ask but to try; who gets the lock gives it back at once, and
    servers try again by themselves.
    """
    if path is None:
        return "none"
    receiver = side.client.get_queue_receiver(path, session_id=LEASE_SESSION)
    try:
        async with receiver:
            return "free"
    except SessionCannotBeLockedError:
        return "held"


def backlog_name(primary: str | None, given: str | None) -> str:
    """What the paths of its backlog queues begin with. Raises Failure."""
    host = "" if primary is None else parse_connection_string(primary).host
    return _checked_name(host, given)


def _checked_name(host: str, given: str | None) -> str:
    try:
        return name_of(host, given)
    except ValueError:
        why = f"The host '{host}' does not tell it. " if host else ""
        raise Failure(
            f"The name of the primary is not known. {why}Give --primary-name, as the "
            "applications that are paired do.",
            exit_codes.USAGE,
        ) from None


async def backlog_of(secondary: str, name: str) -> BacklogSurvey:
    """The backlog queues of a primary, counted and not looked into. Raises Failure."""
    async with opened(secondary, _SECONDARY) as side:
        with told_as_failure(side):
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await survey_backlog(
                    side.administration, side.client, name, peek_count=0
                )


async def remove_unused(secondary: str, paths: Sequence[str]) -> list[str]:
    """Remove those that are empty still; returns them. Raises Failure."""
    async with opened(secondary, _SECONDARY) as side:
        with told_as_failure(side):
            return [path for path in paths if await _is_removed(side, path)]


async def _is_removed(side: SdkSide, path: str) -> bool:
    """A message may be on its way just now. So the queue is closed to senders first,
    which then take another one, and only then is it known to be empty."""
    administration = side.administration
    properties = await administration.get_queue(path)
    before = properties.status
    properties.status = EntityStatus.SEND_DISABLED
    is_removed = False
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await administration.update_queue(properties)
            counts = await administration.get_queue_runtime_properties(path)
            if counts.total_message_count == 0:
                await administration.delete_queue(path)
                is_removed = True
    finally:
        # Also if something failed in between: it must not stay closed.
        if not is_removed:
            properties.status = before
            async with asyncio.timeout(PATIENCE_SECONDS):
                await administration.update_queue(properties)
    return is_removed
