"""Invalid names over every interface: HTTP, AMQP, configuration, command line.

None creates an entity with such a name, and each error says what a name may be. A
look-up by an invalid name finds nothing; and an entity is not found by a name that
merely looks like its own.
"""

import os
import string
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from crash import messages
from crash.server_process import ServerProcess

from hostile.caller import Caller, entry
from hostile.witness import Witness
from twinbus.amqp.messaging import AmqpValue, Message
from twinbus.cli import exit_codes, main
from twinbus.client import ClientConnection, LinkClosed
from twinbus.compilation import PURE_VARIABLE
from twinbus.config.config import ROOT_KEY_NAME

ALLOWED = set(string.ascii_letters + string.digits + "._-/")
# All of ASCII that no name has, and some of what else there is.
ODD_CHARACTERS = [
    *(character for character in map(chr, range(128)) if character not in ALLOWED),
    *("\x80", "\xa0", "\xe9", "\u0130", "\u0131", "\u0661", "\u200b", "\u202e"),
    *("\u2024", "\u2215", "\uff0f", "\uff41", "\ufeff", "\ufffd", "\U0001f600"),
]
# Whole names that are none, whatever their characters.
ODD_NAMES = [
    *("-a", "_a", ".a", ".", "..", "a//b", "a/", "x" * 261, "a/" * 130 + "b"),
    *("$management", "$cbs", "a/$DeadLetterQueue", "a/$Transfer/$DeadLetterQueue"),
    *("a/Subscriptions/b/c", "subscriptions/a", "a/SUBSCRIPTIONS", "a/../b%00"),
]


async def created_by_amqp(connection: ClientConnection, path: str) -> int:
    """The status of an attempt to make a queue."""
    answer = await connection.request(
        "$management",
        Message(
            application_properties={"operation": "twinbus:create-queue"},
            body=AmqpValue({"path": path, "properties": "{}"}),
        ),
    )
    status: int = (answer.application_properties or {})["statusCode"]  # type: ignore[assignment]
    return status


async def test_odd_characters_in_new_names(server: ServerProcess) -> None:
    call = Caller(server)
    async with Witness(server), await server.connect() as connection:
        for character in ODD_CHARACTERS:
            for path in (f"a{character}b", f"a{character}"):
                target = f"/{quote(path, safe='')}"
                for kind in ("Queue", "Topic"):
                    answer = await call("PUT", target, entry(kind))
                    assert (answer.status, path) == (400, path)
                    assert "is not a valid entity path" in answer.detail
                assert (await call("GET", target)).status == 404
                assert await created_by_amqp(connection, path) == 400


@pytest.mark.parametrize("path", ODD_NAMES)
async def test_names_that_are_none(server: ServerProcess, path: str) -> None:
    call = Caller(server)
    async with Witness(server), await server.connect() as connection:
        # HTTP ignores slashes at the end.
        target = f"/{quote(path)}%2f" if path.endswith("/") else f"/{quote(path)}"
        answer = await call("PUT", target, entry("Queue"))
        expected = {"a/": 201, "a/SUBSCRIPTIONS": 405}.get(path, 400)
        assert answer.status == expected
        assert await created_by_amqp(connection, path) == 400
        if path == "a/":
            assert (await call("DELETE", "/a")).status == 200


async def test_odd_characters_below_topics(server: ServerProcess) -> None:
    call = Caller(server)
    async with Witness(server):
        for character in (*ODD_CHARACTERS, "/"):
            name = quote(f"a{character}b", safe="")
            answer = await call(
                "PUT", f"/news/subscriptions/{name}", entry("Subscription")
            )
            assert (answer.status, character) == (400, character)
            answer = await call(
                "PUT", f"/news/subscriptions/all/rules/{name}", entry("Rule")
            )
            # The one that rules have and entities have not.
            assert answer.status == (201 if character == "$" else 400)
        for length, status in ((50, 201), (51, 400)):
            long_name = "x" * length
            for target, kind in (
                (f"/news/subscriptions/{long_name}", "Subscription"),
                (f"/news/subscriptions/all/rules/{long_name}", "Rule"),
            ):
                assert (await call("PUT", target, entry(kind))).status == status


async def test_odd_addresses_lead_nowhere(server: ServerProcess) -> None:
    addresses = [
        *(f"target{character}" for character in ODD_CHARACTERS if character != "/"),
        *("target\0", "\0target", "t%61rget%00", "target%2f%2fx", "./target"),
        *("x/../target", "target/.", "sb://", "sb://a", "amqps:///x/target\n", "://"),
        *("news/Subscriptions/all\0", "news/Subscriptions/", "news/Subscriptions//all"),
        *("target/$DeadLetterQueue/$DeadLetterQueue", "target/$management/$management"),
        *("\u212aelvin", "\u017f", "x" * 60_000),
    ]
    async with Witness(server), await server.connect() as connection:
        for address in addresses:
            for attach in (connection.sender, connection.receiver):
                with pytest.raises(LinkClosed) as refusal:
                    await attach(address)
                assert refusal.value.error is not None
                assert refusal.value.error.condition in (
                    "amqp:not-found",
                    "com.microsoft:argument-error",
                )


async def test_spellings_of_one_entity(server: ServerProcess) -> None:
    """Case and the ways of the SDKs to write addresses make no difference."""
    async with Witness(server), await server.connect() as connection:
        for at, address in enumerate(
            ("target", "TARGET", "/target", "sb://host/Target", "t%61rget", "target/")
        ):
            sender = await connection.sender(address)
            await sender.send(messages.named(f"spelled-{at}"))
        found = await messages.peek_all(connection, "target")
        assert [item.name for item in found] == [f"spelled-{at}" for at in range(6)]


CONFIGURED = (
    "a b",
    "a$b",
    "-a",
    "a//b",
    "a/",
    "\u00e9",
    "x" * 261,
    "",
    "subscriptions/a",
)


Here = Callable[..., tuple[int, str]]


@pytest.fixture
def run_here(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Here:
    """Runs a command in this process, which is much quicker than in one of its own;
    gives its exit code and what it writes to stderr."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ.keys() - {PURE_VARIABLE}:
        if name.startswith("TWINBUS_"):
            monkeypatch.delenv(name)

    def run_one(*arguments: str) -> tuple[int, str]:
        code = main.run([*arguments])
        return code, capsys.readouterr().err

    return run_one


@pytest.mark.parametrize("name", CONFIGURED)
@pytest.mark.parametrize("section", ["queues", "topics", "topics.news.subscriptions"])
def test_odd_names_in_the_configuration(
    run_here: Here, tmp_path: Path, name: str, section: str
) -> None:
    (tmp_path / "bus.toml").write_text(f'[{section}."{name}"]\n', encoding="utf-8")
    free = ("--port", "0", "--http-port", "0", "--tls-port", "0")
    code, errors = run_here("serve", "--config", "bus.toml", *free)
    assert code == exit_codes.USAGE
    (line,) = errors.splitlines()
    assert "valid" in line or "at most" in line


@pytest.mark.parametrize("name", ["a b", "a\nb", "\u202ea", "a$b", "-a", "x" * 261])
def test_odd_names_on_the_command_line(
    run_here: Here, server: ServerProcess, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    secret = f"SharedAccessKeyName={ROOT_KEY_NAME};SharedAccessKey={server.key}"
    endpoint = f"Endpoint=sb://127.0.0.1:{server.port}/;{secret}"
    endpoint += ";UseDevelopmentEmulator=true"
    monkeypatch.setenv("TWINBUS_CONNECTION_STRING", endpoint)
    code, errors = run_here("entities", "create", "queue", "--", name)
    assert code == exit_codes.USAGE
    assert errors
    assert server.key not in errors
