"""What a filter or an action raises when it cannot be evaluated for a message.

It is no refusal of a request: the sender is not told. A subscription either lets the
message pass by or dead-letters it, as its properties say.
"""

from typing import final


@final
class FilterError(Exception):
    """The text says which operation failed, and on what."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text: str = text
