"""How long brokers of a cluster wait for each other."""

from typing import Final

BEAT_MS: Final = 1_000
"""So often a broker announces itself, and looks at the others."""

TERM_MS: Final = 6_000
"""A broker that was not heard of for so long is replaced. Long enough for five lost
announcements, short enough for a takeover within ten seconds."""

HESITATION_MS: Final = BEAT_MS
"""After so long without an announcement the leases of a broker are watched, so that
they need not be watched for a whole term after its own."""

FORGET_MS: Final = 10 * TERM_MS
"""A broker that was not heard of for so long, and owns nothing, is withdrawn."""

EARLY_DIAGNOSIS_SECONDS: Final = TERM_MS / 2 / 1000
"""A broker whose loop has not turned for so long writes a diagnosis: it may be ended a
term after its last announcement, which may have been a second before."""
