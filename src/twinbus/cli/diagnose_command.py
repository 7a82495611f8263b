"""`twinbus diagnose`: a running server writes a diagnosis of itself."""

import json
from typing import Any, Final

from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import SERVER
from twinbus.cli.flags import takes

EXAMPLES: Final = examples("twinbus diagnose", "twinbus diagnose --json")


@takes(*SERVER)
def diagnose(**flags: Any) -> None:
    """Let a running server write a diagnosis, and print where it is.

    It is a folder in the data folder of the server, without messages and keys. With
    several brokers each writes one. A server
    that does not answer writes one on the signal SIGUSR2, or by itself.
    """
    from twinbus.cli.own_requests import ask_own, warn_of_missing

    answer = ask_own(flags, "POST", "/$diagnosis")
    if flags["is_json"]:
        print(json.dumps(answer, indent=2))
    else:
        folders = answer.get("brokers", {"": answer["folder"]})
        print("\n".join(folders.values()))
    warn_of_missing(answer)
