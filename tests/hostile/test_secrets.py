"""No key and no signature is in any log, error or answer.

The bus logs everything (`debug`) while valid and invalid tokens, keys and passwords are
used on every interface. Then all logs and answers are searched. Only the description of
an entity has its keys, for clients that may manage it, and so has that of a namespace.
Names given by clients are in the log, too, but cannot forge log lines.
"""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from cli.command import run
from crash.server_process import ServerProcess

from hostile.caller import Caller, entry
from hostile.stranger import Closed, Stranger
from hostile.websocket_bridge import websocket_bridge
from hostile.websocket_stranger import PATH, WebSocketStranger, request
from hostile.witness import Witness
from twinbus.amqp.handshake import AMQP_HEADER, SASL_HEADER
from twinbus.amqp.sasl import SaslInit, plain, sasl_frame
from twinbus.client import ClientError, RequestFailed, connect
from twinbus.client.management import ask_namespace
from twinbus.config.config import ROOT_KEY_NAME

ENTITY_KEY = "key-of-an-entity-0123456789abcdef"
BULK = ("runtime", "lease", "plan", "browse", "settle", "append")
WRONG_KEY = "almost-a-key-0123456789abcdef"
LOCK_TOKEN = "00000000-0000-0000-0000-000000000000"
_BOTH = ("primary", "secondary")
BATCH = "application/vnd.microsoft.servicebus.json"
MESSAGES = (
    ("POST", "/target/messages"),
    ("POST", "/nothing/messages"),
    ("POST", "/news/messages"),
    ("POST", "/target/messages/head?timeout=0"),
    ("DELETE", "/target/messages/head?timeout=0"),
    ("DELETE", "/news/subscriptions/all/messages/head?timeout=0"),
    *((method, f"/target/messages/1/{LOCK_TOKEN}") for method in ("PUT", "POST")),
    ("DELETE", f"/target/messages/1/{LOCK_TOKEN}"),
    ("PATCH", "/target/messages/1"),
)


def signatures(token: str) -> set[str]:
    """That of a token, as it is in the token and before it was percent-encoded."""
    _, _, written = token.partition("sig=")
    return {parse_qs(token.partition(" ")[2])["sig"][0], written.partition("&")[0]}


class Attempts:
    """Everything that is tried, and all that was said about it."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.call = Caller(server)
        # Never to be seen, and texts in which to look for them.
        self.secrets = {server.key, WRONG_KEY, ENTITY_KEY}
        self.heard: list[str] = []

    def tokens(self) -> list[str]:
        call = self.call
        made = [
            *(call.token(), call.token(seconds=-60), call.token("elsewhere")),
            *(call.token(key=WRONG_KEY), call.token(key_name="owner", key=ENTITY_KEY)),
        ]
        self.secrets |= {text for token in made for text in signatures(token)}
        broken = [token.replace("&se=", "&es=") for token in made]
        return [*made, *broken, *(token[:-3] + "%zz" for token in made)]

    async def by_http(self) -> None:
        rights = "<Rights><AccessRights>Manage</AccessRights></Rights>"
        rule = f"<KeyName>owner</KeyName><PrimaryKey>{ENTITY_KEY}</PrimaryKey>{rights}"
        rules = f"<AuthorizationRule>{rule}</AuthorizationRule>"
        body = entry("Queue", f"<AuthorizationRules>{rules}</AuthorizationRules>")
        for path in ("/owned", "/owned", "/owned%20", "/-owned"):
            answer = await self.call("PUT", path, body)
            if answer.status >= 400:
                self.heard.append(answer.body.decode())
        wrong = body.replace("Manage", "Rule").replace("Queue", "Topic")
        self.heard.append((await self.call("PUT", "/x", wrong)).body.decode())
        for token in self.tokens():
            for path in ("/target", "/nothing", "/$Resources/topics", f"/?{token}"):
                target = path.replace(" ", "%20")
                answer = await self.call("GET", target, token=token)
                self.heard.append(f"{answer.headers} {answer.body.decode()}")
            for path in ("", *(f"/{name}" for name in BULK), f"/{token[:60]}"):
                target = f"/$bulk{path}".replace(" ", "%20")
                body = '{"entities": ["target", "nothing"], "pattern": "*"}'
                answer = await self.call("POST", target, body, token=token)
                self.heard.append(f"{answer.headers} {answer.body.decode()}")

    async def by_messages(self) -> None:
        """Sent, received and settled; what is no property may be a token, too."""
        for token in self.tokens():
            target = token.replace(" ", "%20")
            for method, path in (*MESSAGES, ("POST", f"/target/messages/1/{target}")):
                await self._hear(method, path, b"x", token=token)
            for properties in ("{", token, f'{{"MessageId": {token}}}', '{"To": 5}'):
                said = {"BrokerProperties": properties}
                await self._hear("POST", "/target/messages", b"x", token=token, **said)
            for body in (b"[", token.encode(), b'[{"Body": 5}]', b'[{"Body": "x"}]'):
                path, kind = "/target/messages", {"Content_Type": BATCH}
                await self._hear("POST", path, body, token=token, **kind)
        await self._settle_some()

    async def _settle_some(self) -> None:
        for token in self.tokens():
            await self.call("POST", "/target/messages", b"x")
            locked = await self.call("POST", "/target/messages/head?timeout=9")
            place = locked.headers["location"].partition(str(self.server.port))[2]
            for method in ("POST", "PUT", "DELETE"):
                await self._hear(method, place, token=token)

    async def _hear(
        self, method: str, target: str, body: bytes = b"", *, token: str, **said: str
    ) -> None:
        answer = await self.call(method, target, body, token=token, **said)
        self.heard.append(f"{answer.headers} {answer.body.decode()}")

    async def by_namespaces(self) -> None:
        """One is made, shown with its keys, used and removed."""
        wanted = json.dumps({"name": "shop"}).encode()
        made = await self.call("POST", "/$namespaces", wanted)
        shown = await self.call("GET", "/$namespaces/shop?keys=yes")
        assert (made.status, shown.status) == (201, 200)
        rules = [json.loads(answer.body)["root_rule"] for answer in (made, shown)]
        keys = {rule[f"{name}_key"] for rule in rules for name in _BOTH}
        assert len(keys) == 2
        self.secrets |= keys
        root = self.call.token()
        await self._hear("POST", "/$namespaces", wanted, token=root)
        for token in (*self.tokens(), *map(self._token_of, sorted(keys))):
            for method in ("GET", "POST"):
                await self._hear(method, "/$namespaces", b'{"name": 5}', token=token)
            for path in ("/$namespaces/shop", "/$namespaces/nothing?keys=yes"):
                await self._hear("GET", path, token=token)
            for host in ("shop.localhost", "localhost"):
                said = {"Host": host}
                await self._hear("GET", "/$namespaceinfo", token=token, **said)
        for token in map(self._token_of, sorted(keys)):
            for host, status in (("shop.localhost", 200), ("localhost", 401)):
                found = await self.call(
                    "GET", "/$namespaceinfo", token=token, Host=host
                )
                assert found.status == status, "the keys are those of the namespace"
        await self._hear("DELETE", "/$namespaces/shop", token=root)
        await self._hear("GET", "/$namespaces/shop?keys=yes", token=root)

    def _token_of(self, key: str) -> str:
        made = self.call.token(key=key)
        self.secrets |= signatures(made)
        return made

    async def by_websocket(self) -> None:
        """What AMQP is asked, and handshakes with tokens where texts may be."""
        async with websocket_bridge(self.server.port) as port:
            await self.by_amqp(port)
        for token in self.tokens():
            target = token.replace(" ", "%20")
            for asked in (
                request(Authorization=token),
                request(f"{PATH}?{target}", Authorization=token),
                request(f"{PATH}/{target}"),
                request(Sec_WebSocket_Protocol=token),
                request(Sec_WebSocket_Key=token),
                request(Sec_WebSocket_Version=token),
            ):
                async with await WebSocketStranger.dial(self.server) as stranger:
                    stranger.raw(asked)
                    answered = await stranger.read_until(b"\r\n\r\n")
                    self.heard.append(answered.decode("latin-1"))

    async def by_amqp(self, port: int) -> None:
        server = self.server
        for key in (WRONG_KEY, ENTITY_KEY, server.key + "x"):
            with pytest.raises(ClientError) as refusal:
                sasl = plain(ROOT_KEY_NAME, key)
                async with await connect("127.0.0.1", port, sasl=sasl):
                    pass
            self.heard.append(str(refusal.value))
        root = plain(ROOT_KEY_NAME, server.key)
        async with await connect("127.0.0.1", port, sasl=root) as connection:
            for token in self.tokens():
                for audience in ("sb://bus/target", "target", "\0", token):
                    try:
                        await connection.put_token(audience, token)
                    except RequestFailed as failure:
                        # The name of what was asked for is repeated.
                        told = failure.description.replace(token.lower(), "")
                        self.heard.append(told)
            with pytest.raises(ClientError) as gone:
                await connection.sender("nothing")
            self.heard.append(str(gone.value))

    async def by_broken_frames(self) -> None:
        response = f"\0{ROOT_KEY_NAME}\0{self.server.key}".encode()
        init = sasl_frame(SaslInit(mechanism="PLAIN", initial_response=response))
        for said in (
            SASL_HEADER + init[:-5] + b"\xff" * 50,
            SASL_HEADER + init + AMQP_HEADER + init,
            AMQP_HEADER + init,
            SASL_HEADER + init * 2,
        ):
            async with await Stranger.dial(self.server) as stranger:
                stranger.write(said)
                try:
                    while True:
                        self.heard.append(repr(await stranger.read_frame()))
                except Closed:
                    continue

    async def by_keys(self) -> None:
        """Rules are made, read with their keys, renewed and removed."""
        async with await self.server.connect() as connection:
            for path in ("", "target"):
                named = {"path": path, "key_name": "passing"}
                rights = {"rights": '["Send"]', "with_keys": "yes"}
                for operation, arguments in (
                    ("create-key", rights),
                    ("list-keys", {"with_keys": "yes"}),
                    ("regenerate-key", {"key": "primary", "with_keys": "yes"}),
                    ("regenerate-key", {"key": "secondary", "with_keys": "yes"}),
                    ("delete-key", {}),
                ):
                    asked = {**named, **arguments}
                    answer = await ask_namespace(connection, operation, asked)
                    rules = answer if isinstance(answer, list) else [answer or {}]
                    keys = {
                        value
                        for rule in rules
                        for name, value in rule.items()
                        if name in ("primary_key", "secondary_key") and value
                    }
                    assert keys or operation == "delete-key"
                    self.secrets |= keys
                for operation in ("create-key", "list-keys"):
                    asked = {**named, "rights": '["Send"]'}
                    answer = await ask_namespace(connection, operation, asked)
                    self.heard.append(str(answer))

    def by_command(self, folder: Path) -> None:
        endpoint = f"Endpoint=sb://127.0.0.1:{self.server.port}/"
        for key in (WRONG_KEY, self.server.key):
            text = f"{endpoint};SharedAccessKeyName={ROOT_KEY_NAME}"
            text += f";SharedAccessKey={key};UseDevelopmentEmulator=true"
            variables = {"TWINBUS_CONNECTION_STRING": text}
            for command in (
                ("list",),
                ("show", "nothing"),
                ("show", "owned", "--json"),
            ):
                ended = run("entities", *command, cwd=folder, env=variables)
                self.heard += [ended.stdout, ended.stderr]
            for command in (("list",), ("list", "--entity", "owned", "--json")):
                ended = run("keys", *command, cwd=folder, env=variables)
                self.heard += [ended.stdout, ended.stderr]


async def test_nothing_that_is_said_or_logged_holds_a_secret(
    make_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    server = make_server("--log-level", "debug")
    attempts = Attempts(server)
    async with Witness(server):
        await attempts.by_http()
        await attempts.by_messages()
        await attempts.by_namespaces()
        await attempts.by_amqp(server.port)
        await attempts.by_websocket()
        await attempts.by_broken_frames()
        await attempts.by_keys()
        attempts.by_command(tmp_path)
    assert "refused: " in server.errors, "the log is the one that was asked for"
    assert " twinbus.audit: " in server.errors
    attempts.heard.append(server.errors)
    attempts.heard.append((await attempts.call("GET", "/metrics")).body.decode())
    for secret in attempts.secrets:
        for text in attempts.heard:
            assert secret not in text, text[:2_000]


async def test_no_client_writes_a_line_of_the_log(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server("--log-level", "info")
    call = Caller(server)
    async with Witness(server), await server.connect() as connection:
        assert (await call("GET", "/x%0AFORGED%0D%1B%5B2J")).status == 404
        with pytest.raises(ClientError):
            await connection.sender("x\nFORGED\x1b[2J")
    assert server.errors.count("FORGED") == 2
    assert not [line for line in server.errors.splitlines() if line[:6] == "FORGED"]
    assert "\x1b" not in server.errors


async def test_secrets_are_readable_by_their_owner_only(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server()
    assert (server.data / "root-key").stat().st_mode & 0o077 == 0
