"""How many of something there may be in a namespace."""

from twinbus.errors import QuotaExceeded


def check_count(nouns: str, count: int, limit: int, setting: str, path: str) -> None:
    """Raises QuotaExceeded if another one would be too many."""
    if count >= limit:
        raise QuotaExceeded.counted(
            nouns, limit=limit, actual=count + 1, setting=setting, entity_path=path
        )
