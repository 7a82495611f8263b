"""Reads JSON of strangers: any text gives a value or an ArgumentError."""

import json
from typing import NoReturn

from twinbus.errors import ArgumentError


def read_json(text: str | bytes, what: str) -> object:
    """`what` names it in errors. Raises ArgumentError."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ArgumentError(f"{what} is nested too deeply.") from None
    except ValueError as error:
        # Also text that is not UTF-8, and numbers of thousands of digits.
        raise ArgumentError(f"{what} is not valid JSON: {error}.") from None


def read_object(content: object, what: str) -> dict[str, object]:
    """Raises ArgumentError."""
    if not isinstance(content, dict):
        raise ArgumentError(f"{what} must be a JSON object.")
    return content


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
