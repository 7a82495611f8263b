"""How much a topic may have: the documented numbers, unless the operator says else.

What is more than that is refused when it is asked for. What there is already stays,
when a quota is lowered under it.
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
    """Numbers of things of one topic."""

    subscriptions: int = SUBSCRIPTIONS_PER_TOPIC
    # Of all subscriptions together.
    sql_rules: int = SQL_RULES_PER_TOPIC
    correlation_rules: int = CORRELATION_RULES_PER_TOPIC


DOCUMENTED_QUOTAS: Final = TopicQuotas()
