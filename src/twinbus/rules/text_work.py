"""How much of a message's texts its rules may look through, all of them together.

A topic may have 2,000 filters, each with dozens of LIKEs, and a message 64 KB of
text: everybody would wait while they meet. What depends on the length of texts is
counted, and past the limit a filter fails, as one that divides by zero does.
"""

from typing import final

from twinbus.limits import RULE_TEXT_STEPS
from twinbus.rules.filter_error import FilterError


@final
class TextWork:
    """What is left for one message."""

    def __init__(self) -> None:
        self.left: int = RULE_TEXT_STEPS

    def spend(self, steps: int) -> None:
        """Raises FilterError when there is nothing left."""
        self.left -= steps
        if self.left < 0:
            raise FilterError(
                "The texts of the message are too long for the filters of all "
                f"subscriptions together, which took more than {RULE_TEXT_STEPS} "
                "steps. Shorten the texts, or have fewer LIKEs look at them."
            )
