"""Rules for the subscriptions of a test, with the names of the configuration file.

rule("large", sql_filter="amount > 100", action="SET priority = 'high'")
rule("eu", correlation_filter={"label": "order", "properties": {"region": "eu"}})
"""

from collections.abc import Mapping

from twinbus.config.rules import written_rule
from twinbus.rules.rule import Rule


def rule(
    name: str,
    *,
    sql_filter: str | None = None,
    parameters: Mapping[str, object] | None = None,
    correlation_filter: Mapping[str, object] | None = None,
    action: str | None = None,
    action_parameters: Mapping[str, object] | None = None,
) -> Rule:
    """A rule for `create_subscription` or `add_rule`; without a filter it selects all
    messages. A correlation filter has the names of the SDK's `CorrelationRuleFilter`.

    Raises ValueError, and ArgumentError and ArgumentOutOfRange as the server does.
    """
    parts = {
        "name": name,
        "sql_filter": sql_filter,
        "parameters": parameters,
        "correlation_filter": correlation_filter,
        "action": action,
        "action_parameters": action_parameters,
    }
    return written_rule(
        {key: value for key, value in parts.items() if value is not None}
    )
