"""Limits how much of a message's texts all rules together may search.

A topic may have 2,000 filters with dozens of LIKEs each, and a message 64 KB of text:
evaluating them all would block every client. Work that depends on the length of texts
is counted; beyond the limit a filter fails, like one that divides by zero.
"""

from typing import final

from twinbus.limits import RULE_TEXT_STEPS
from twinbus.rules.filter_error import FilterError


@final
class TextWork:
    """The steps that are left for one message."""

    def __init__(self) -> None:
        self.left: int = RULE_TEXT_STEPS

    def spend(self, steps: int) -> None:
        """Raises FilterError if no steps are left."""
        self.left -= steps
        if self.left < 0:
            raise FilterError(
                "The texts of the message are too long for the filters of all "
                f"subscriptions together, which took more than {RULE_TEXT_STEPS} "
                "steps. Shorten the texts, or use fewer LIKEs."
            )
