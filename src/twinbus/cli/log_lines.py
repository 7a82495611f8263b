"""Log lines that stay lines, whatever a client put into them.

A refusal repeats what a client asked for, and the client may be a stranger. A line feed
in it would look like a line that the server wrote, and other control characters would
reach the terminal of the person who reads the log. So they are written as escapes. Only
tracebacks, which are our own text, have several lines.
"""

import logging
import re
from typing import Final

# Control characters, what breaks lines in Unicode, and what turns text around.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


class LogLine(logging.Formatter):
    """Formats each record as one line, and its traceback below."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        return _UNPRINTABLE.sub(_escape, super().formatMessage(record))


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
