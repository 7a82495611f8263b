"""What is done after a failure to restore."""

from twinbus.pairing.failures import VERDICTS, FailureKind, Verdict
from twinbus.pairing.syphon.ports import RestoreRefusal
from twinbus.pairing.syphon.treatments import (
    TREATMENTS,
    UNANSWERED,
    Treatment,
    fault_of,
)


def test_every_kind_has_a_treatment() -> None:
    assert set(TREATMENTS) == set(FailureKind)


def test_what_a_detour_mends_is_never_poison() -> None:
    for kind, verdict in VERDICTS.items():
        if verdict is not Verdict.RAISE:
            assert TREATMENTS[kind] is not Treatment.POISON


def test_a_misconfigured_syphon_loses_nothing() -> None:
    for kind in (FailureKind.AUTHENTICATION, FailureKind.AUTHORIZATION):
        assert TREATMENTS[kind] is Treatment.COMPLAIN


def test_only_silence_may_mean_the_whole_primary() -> None:
    assert all(TREATMENTS[kind] is Treatment.PARK for kind in UNANSWERED)


def test_whatever_is_dead_lettered_has_a_reason() -> None:
    for kind, treatment in TREATMENTS.items():
        if treatment in (Treatment.POISON, Treatment.GRACE):
            fault = fault_of(RestoreRefusal(kind, "why"))
            assert fault.reason
            assert fault.description == "why"
