"""The table of failures: every kind has its verdict."""

import pytest

from twinbus.pairing.failures import VERDICTS, FailureKind, Verdict

COUNTS = {
    FailureKind.TIMEOUT,
    FailureKind.CONNECTION,
    FailureKind.COMMUNICATION,
    FailureKind.SERVICE,
    FailureKind.NOT_FOUND,
    FailureKind.DISABLED,
    FailureKind.QUOTA,
    FailureKind.STORE,
}


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_has_the_verdict_of_the_table(kind: FailureKind) -> None:
    if kind in COUNTS:
        assert VERDICTS[kind] is Verdict.COUNTS
    elif kind is FailureKind.BUSY:
        assert VERDICTS[kind] is Verdict.WAIT
    else:
        assert VERDICTS[kind] is Verdict.RAISE


def test_the_table_cannot_be_changed_for_everybody() -> None:
    with pytest.raises(TypeError):
        VERDICTS[FailureKind.BUSY] = Verdict.RAISE  # type: ignore[index]
