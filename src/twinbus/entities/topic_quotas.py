"""Quotas of a topic: the documented numbers, or those that the operator sets.

Additions above a quota are refused. If a quota is lowered, existing subscriptions and
rules stay.
"""

from dataclasses import dataclass
from typing import Final

from twinbus.limits import (
    CORRELATION_RULES_PER_TOPIC,
    SQL_RULES_PER_TOPIC,
    SUBSCRIPTIONS_PER_TOPIC,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicQuotas:
    """Limits of one topic."""

    subscriptions: int = SUBSCRIPTIONS_PER_TOPIC
    # All subscriptions together.
    sql_rules: int = SQL_RULES_PER_TOPIC
    correlation_rules: int = CORRELATION_RULES_PER_TOPIC


DOCUMENTED_QUOTAS: Final = TopicQuotas()
