"""What the benches need beyond Python, and the exact command that installs it."""

import shutil
from pathlib import Path

COMPILER_INSTALL = (
    "The load client needs a C compiler and OpenSSL's headers: "
    "sudo apt-get install gcc libc6-dev libssl-dev"
)
RABBITMQ_INSTALL = "sudo apt-get install rabbitmq-server openssl"


class MissingPrerequisite(Exception):
    """Something the benches cannot do without is not installed."""


def require_compiler() -> str:
    """The C compiler's path."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingPrerequisite(COMPILER_INSTALL)
    return compiler


def find_rabbitmq() -> Path | None:
    """RabbitMQ's own start script, if all that a private node needs is installed.

    Not Debian's wrapper of the same name: that one changes to the system's user and
    would work in the system's folders.
    """
    if shutil.which("openssl") is None or shutil.which("epmd") is None:
        return None
    scripts = Path("/usr/lib/rabbitmq/lib").glob("*/sbin/rabbitmq-server")
    return max(scripts, default=None)
