"""A dead-letter queue has the lock duration of its entity, and no other limit."""

from twinbus.broker.fragment_settings import (
    NO_LIMIT,
    FragmentSettings,
    dead_letter_settings,
)


def test_dead_letter_queue_knows_neither_time_to_live_nor_limits() -> None:
    main = FragmentSettings(
        path="orders",
        lock_duration_ms=7_000,
        max_delivery_count=2,
        default_ttl_ms=5,
        dead_letter_on_expiration=True,
        max_size_bytes=9,
    )
    assert dead_letter_settings(main) == FragmentSettings(
        path="orders/$DeadLetterQueue",
        lock_duration_ms=7_000,
        max_delivery_count=NO_LIMIT,
        default_ttl_ms=0,
        dead_letter_on_expiration=False,
        max_size_bytes=NO_LIMIT,
        is_dead_letter_queue=True,
    )
