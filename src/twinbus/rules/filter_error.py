"""The error of a filter or action that cannot be evaluated for a message.

The sender does not get it: depending on its properties, the subscription dead-letters
the message or does not get it.
"""

from typing import final


@final
class FilterError(Exception):
    """The text says which operation failed, and for which value."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text: str = text
