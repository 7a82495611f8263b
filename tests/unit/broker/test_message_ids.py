"""Ids made by the bus are distinct, of one form, and drawn in portions."""

from twinbus.broker.message_ids import DIGIT_COUNT, MessageIds


def test_ids_are_distinct_hexadecimal_digits() -> None:
    drawn: list[int] = []

    def entropy(count: int) -> bytes:
        drawn.append(count)
        return b"".join(
            (len(drawn) * 1_000 + number).to_bytes(16, "big")
            for number in range(count // 16)
        )

    ids = MessageIds(entropy)

    found = [ids.next() for _ in range(1_000)]

    assert len(set(found)) == 1_000
    assert all(len(one) == DIGIT_COUNT and int(one, 16) for one in found)
    assert len(drawn) < 10
