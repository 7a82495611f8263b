"""What the benches need beyond Python, and the exact command that installs it."""

import shutil
from pathlib import Path

RABBITMQ_INSTALL = "sudo apt-get install rabbitmq-server"


class MissingPrerequisite(Exception):
    """Something the benches cannot do without is not installed."""


def require_compiler() -> str:
    """The C compiler's path, once OpenSSL's headers are known to be there too."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingPrerequisite(
            "The load client needs a C compiler: sudo apt-get install gcc libc6-dev"
        )
    if not any(Path("/usr").glob("*include/openssl/ssl.h")):
        raise MissingPrerequisite(
            "The load client needs OpenSSL's headers: sudo apt-get install libssl-dev"
        )
    return compiler


def find_rabbitmq() -> Path | None:
    """RabbitMQ's own start script, if it is installed.

    Not Debian's wrapper of the same name: that one changes to the system's user and
    would work in the system's folders.
    """
    scripts = Path("/usr/lib/rabbitmq/lib").glob("*/sbin/rabbitmq-server")
    return max(scripts, default=None)
