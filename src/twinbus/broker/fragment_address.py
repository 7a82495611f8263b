"""Where a fragment is: its store, its entity, and its index there.

It names a fragment whose store is away, or in another process. The text is a part of
the stored format.
"""

from typing import Final, final

_STORE_CHARACTERS: Final = 32
"""A store's UUID in hexadecimal digits: the first part of the text."""


@final
class FragmentAddress:
    """Names one main fragment."""

    def __init__(self, store_uuid: bytes, generation: bytes, index: int) -> None:
        self.store_uuid: bytes = store_uuid
        self.generation: bytes = generation
        self.index: int = index
        self.text: str = f"{store_uuid.hex()}/{generation.hex()}/{index}"


def address_from(text: str) -> FragmentAddress:
    """Raises ValueError if this is no address."""
    store, generation, index = text.split("/")
    return FragmentAddress(bytes.fromhex(store), bytes.fromhex(generation), int(index))


def store_of(text: str) -> bytes:
    """The UUID of the store that an address names."""
    return bytes.fromhex(text[:_STORE_CHARACTERS])
