"""`python -m twinbus.testing.sim SEED`: live through one world, telling the story."""

import sys

from twinbus.testing.sim.world import run_world


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not arguments[0].isdecimal():
        print("usage: python -m twinbus.testing.sim SEED", file=sys.stderr)
        return 2
    outcome = run_world(int(arguments[0]))
    print("\n".join(outcome.trace.lines))
    print(f"digest {outcome.trace.digest()}")
    if outcome.violation is None:
        return 0
    print(f"VIOLATION: {outcome.violation}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
