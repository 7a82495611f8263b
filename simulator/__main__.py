"""`python -m simulator SEED [KIND]`: run a world and print its trace."""

import sys
from typing import Final

from simulator.world import KINDS, run_world

_USAGE: Final = f"usage: python -m simulator SEED [{'|'.join(KINDS)}]"


def main(arguments: list[str]) -> int:
    seed, kind = (*arguments, "queues")[:2] if arguments else ("", "")
    if len(arguments) > 2 or not seed.isdecimal() or kind not in KINDS:
        print(_USAGE, file=sys.stderr)
        return 2
    outcome = run_world(int(seed), kind=kind)
    print("\n".join(outcome.trace.lines))
    print(f"digest {outcome.trace.digest()}")
    if outcome.violation is None:
        return 0
    print(f"VIOLATION: {outcome.violation}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
