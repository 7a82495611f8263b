"""Reads from a diverted message how to restore it, or why that is impossible.

Pure, and the same for every engine: it reads application properties.
"""

from collections.abc import Mapping

from twinbus.limits import ENTITY_PATH_CHARACTERS
from twinbus.pairing.detour import PATH, Detour, DetourError, read_detour
from twinbus.pairing.syphon.ports import Fault


def read(properties: Mapping[str, object]) -> tuple[Detour | None, Fault | None]:
    """One of the two."""
    try:
        detour = read_detour(properties)
    except DetourError as error:
        return None, Fault(_reason(properties), str(error))
    path = detour.path
    if len(path) > ENTITY_PATH_CHARACTERS:
        text = f"'{PATH}' has {len(path)} characters, which no queue and no topic has."
        return None, Fault("InvalidPath", text)
    if "$" in path or not path.isprintable():
        text = f"'{PATH}' is {path!r}, which is no queue and no topic."
        return None, Fault("InvalidPath", text)
    return detour, None


def _reason(properties: Mapping[str, object]) -> str:
    path = properties.get(PATH)
    if path is None:
        return "MissingPath"
    is_path = isinstance(path, str) and path.strip("/")
    return "InvalidProperty" if is_path else "InvalidPath"
