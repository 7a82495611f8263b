"""Settings of a pair."""

from twinbus.pairing.failures import FailureKind, Verdict
from twinbus.pairing.settings import PairSettings


def test_defaults_are_those_of_the_original() -> None:
    settings = PairSettings()
    assert settings.failover_interval_ms == settings.ping_primary_interval_ms == 60_000
    assert settings.busy_wait_ms == 10_000
    assert settings.wait_during_failover
    assert not settings.keep_session_order


def test_a_kind_may_be_judged_otherwise_and_the_others_stay() -> None:
    settings = PairSettings(verdicts={FailureKind.QUOTA: Verdict.RAISE})
    assert settings.verdict(FailureKind.QUOTA) is Verdict.RAISE
    assert settings.verdict(FailureKind.TIMEOUT) is Verdict.COUNTS
