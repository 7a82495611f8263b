"""Reads JSON of strangers: any text gives a value or an ArgumentError."""

import json
from typing import Any, NoReturn

from twinbus.errors import ArgumentError


def read_json(text: str | bytes, what: str) -> Any:
    """`what` names it in errors. Raises ArgumentError."""
    try:
        # json.loads itself would also take UTF-16, and halves of surrogate pairs.
        decoded = text if isinstance(text, str) else text.decode()
        return json.loads(decoded, parse_constant=_refuse)
    except RecursionError:
        raise ArgumentError(f"{what} is nested too deeply.") from None
    except ValueError as error:
        # Also text that is not UTF-8, and numbers of thousands of digits.
        raise ArgumentError(f"{what} is not valid JSON: {error}.") from None


def as_object(content: object, what: str) -> dict[str, Any]:
    """Raises ArgumentError."""
    if not isinstance(content, dict):
        raise ArgumentError(f"{what} must be a JSON object.")
    return content


def read_object(text: str | bytes, what: str) -> dict[str, Any]:
    """Raises ArgumentError."""
    return as_object(read_json(text, what), what)


def read_texts(text: str | bytes, what: str) -> list[str]:
    """A list of texts. Raises ArgumentError."""
    found = read_json(text, what)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ArgumentError(f"{what} must be a JSON list of texts.")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
