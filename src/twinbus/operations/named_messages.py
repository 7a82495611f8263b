"""The messages that a request names by their sequence numbers, by fragment."""

from collections.abc import Sequence

from twinbus.errors import MessageNotFound
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle


def rows_of(
    handle: EntityHandle, numbers: Sequence[int]
) -> dict[FragmentHandle, list[int]]:
    """The row ids of messages in each fragment that may have some. Raises
    MessageNotFound, FragmentUnavailable."""
    found: dict[FragmentHandle, list[int]] = {}
    for number in numbers:
        part = handle.part_of_number(number)
        if part is None:
            raise MessageNotFound.numbered(number, entity_path=handle.path)
        found.setdefault(part, []).append(part.fragment.row_id(number))
    return found
