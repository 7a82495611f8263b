"""Messages without their bytes, for planning and settling by ranges.

They are kept as columns, because a plan reads a hundred thousand messages at a time.
"""

from typing import final


@final
class Outlines:
    """Active messages of one fragment, in order of sequence numbers."""

    def __init__(self) -> None:
        self.row_ids: list[int] = []
        self.enqueued_at: list[int] = []
        self.sizes: list[int] = []
        # Of a body that several messages share; 0 if the message has its own bytes.
        self.body_ids: list[int] = []
        # By row id, for the operation log: uids, and numbers at a topic. Most messages
        # have neither.
        self.uids: dict[int, bytes] = {}
        self.origins: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.row_ids)

    def without(self, row_ids: set[int]) -> "Outlines":
        """All messages except these."""
        if row_ids.isdisjoint(self.row_ids):
            return self
        staying = Outlines()
        for at, row_id in enumerate(self.row_ids):
            if row_id not in row_ids:
                staying.add(
                    row_id,
                    self.enqueued_at[at],
                    self.sizes[at],
                    self.body_ids[at],
                    self.uids.get(row_id, b""),
                    self.origins.get(row_id, 0),
                )
        return staying

    def add(
        self,
        row_id: int,
        enqueued_at: int,
        size_bytes: int,
        body_id: int,
        uid: bytes = b"",
        origin: int = 0,
    ) -> None:
        self.row_ids.append(row_id)
        self.enqueued_at.append(enqueued_at)
        self.sizes.append(size_bytes)
        self.body_ids.append(body_id)
        if uid:
            self.uids[row_id] = uid
        if origin != 0:
            self.origins[row_id] = origin
