"""Every HTTP route without authorization: none answers without a claim.

Only `/health` is public. Tokens that are missing, expired, of another key or resource,
or changed by one character are refused with the service's words; and Send or Listen do
not allow administration.
"""

import pytest
from crash.server_process import ServerProcess

from hostile.caller import Caller, entry
from hostile.stranger import Stranger
from hostile.witness import Witness

VERSION = "?api-version=2021-05"
ROUTES = (
    *(
        "/$namespaceinfo",
        "/$Resources/queues",
        "/$Resources/Topics",
        "/%24Resources/queues",
    ),
    *("/target", "/TARGET", "/nothing", "/", "/target/$management", "//target//"),
    *(
        "/news",
        "/news/Subscriptions",
        "/news/subscriptions/all",
        "/news/subscriptions/",
    ),
    *("/news/subscriptions/all/rules", "/news/Subscriptions/all/Rules/$Default"),
    *("/target/messages", "/target/messages/head", "/$servicebus"),
    *("/favicon.ico", "/.well-known/x", "/Health", "/health/x"),
    *("/$cbs", "/$management", "/%00", "/..%2f..%2fetc/passwd", "/a" * 1_000),
)
# What these keys may do there: tests/http_messaging.
MESSAGES = "/target/messages"
METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE")


HEALTH = ("/health", "/health/", "/%68ealth", "/health?x=1")
METRICS = ("/metrics", "/metrics/", "/%6detrics", "/metrics?entities=5")


def tampered(token: str) -> list[str]:
    """The token with one thing changed at a time."""
    return [
        token.replace("sig=", "sig=A"),
        token.replace("&se=", "&se=9"),
        token.replace("sr=", "sr=x"),
        token.replace("&skn=Root", "&skn=root"),
        token + "x",
        token + "&se=9999999999",
        token[:-1],
        token.replace("sig=", "sig=&nosig="),
        token.replace("SharedAccessSignature", "sharedaccesssignature"),
        f"Bearer {token}",
        f"{token}, {token}",
    ]


@pytest.mark.parametrize("method", METHODS)
async def test_no_route_without_a_token(server: ServerProcess, method: str) -> None:
    call = Caller(server)
    async with Witness(server):
        for route in ROUTES:
            for target in (route, route + VERSION):
                answer = await call(method, target, token="")
                assert (answer.status, target) == (401, target)
                assert method == "HEAD" or "MissingToken" in answer.detail
        for target in HEALTH:
            answer = await call(method, target, token="")
            assert answer.status == (200 if method in ("GET", "HEAD") else 405)


@pytest.mark.parametrize("method", METHODS)
async def test_no_metrics_without_a_good_token(
    server: ServerProcess, method: str
) -> None:
    call = Caller(server)
    bad = ["", call.token(key="of another bus"), *tampered(call.token())]
    async with Witness(server):
        for target in METRICS:
            for token in bad:
                answer = await call(method, target, token=token)
                assert (answer.status, target, token) == (401, target, token)
                assert b"twinbus_" not in answer.body
            answer = await call(method, target)
            assert answer.status == (200 if method in ("GET", "HEAD") else 405)


@pytest.mark.parametrize("route", ROUTES[:20])
async def test_tokens_that_are_none(server: ServerProcess, route: str) -> None:
    call = Caller(server)
    foreign = call.token(key="of another bus")
    wrong = {
        "ExpiredToken": [call.token(seconds=-60), call.token(seconds=-1e9)],
        "InvalidSignature": [
            *(foreign, call.token(key_name="nobody"), *tampered(call.token())[:4])
        ],
        "": [
            *tampered(call.token()),
            *("SharedAccessSignature ", "SharedAccessSignature x", "Basic eA==", "x"),
            "SharedAccessSignature sr=&sig=&se=&skn=",
            "SharedAccessSignature sr=a&sig=%ff%00&se=9999999999&skn=%ff",
            "SharedAccessSignature " + "&".join(f"f{n}=1" for n in range(1_000)),
            call.token("other/" + "x" * 20_000),
            call.token("another"),
        ],
    }
    async with Witness(server):
        for word, tokens in wrong.items():
            for token in tokens:
                for method in ("GET", "PUT", "DELETE"):
                    answer = await call(method, route, token=token)
                    assert (answer.status, token) == (401, token)
                    assert word in answer.detail
                    assert "sig=" not in answer.detail


async def test_a_token_of_bytes_that_are_no_text(server: ServerProcess) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        stranger.write(
            b"GET /target HTTP/1.1\r\nHost: bus\r\nConnection: close\r\n"
            b"Authorization: SharedAccessSignature sr=\xff&sig=\xfe&se=9999999999"
            b"&skn=\xc3\r\n\r\n"
        )
        assert (await stranger.expect_end()).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    ("key_name", "key"), [("listener", "only-listening"), ("sender", "only-sending!")]
)
async def test_rights_to_use_are_none_to_administer(
    server: ServerProcess, key_name: str, key: str
) -> None:
    call = Caller(server)
    token = call.token(key_name=key_name, key=key)
    async with Witness(server):
        for route in (one for one in ROUTES if not one.startswith(MESSAGES)):
            for method in METHODS:
                body = entry("Queue") if method == "PUT" else ""
                answer = await call(method, route, body, token=token)
                if method in ("GET", "HEAD") and answer.status == 404:
                    # Any key of the namespace may know what is not there.
                    assert (await call(method, route)).status == 404, (method, route)
                    continue
                assert answer.status == 401, (method, route)
                if method != "HEAD":
                    assert "'Manage' claim(s) are required" in answer.detail
        assert (await call("GET", "/target")).status == 200


async def test_refusals_do_not_tell_what_exists(server: ServerProcess) -> None:
    call = Caller(server)
    token = call.token(key="of another bus")
    details = set()
    for route in ("/target", "/unknown"):
        detail = (await call("GET", route, token=token)).detail
        text = detail.partition("TrackingId")[0].replace(route[1:], "it")
        details.add(text)
    assert len(details) == 1


async def test_a_token_in_the_query_is_none(server: ServerProcess) -> None:
    """Queries end up in logs of proxies; the service takes no token from there."""
    call = Caller(server)
    token = call.token().replace(" ", "%20")
    for name in ("authorization", "Authorization", "token", "sig"):
        answer = await call("GET", f"/target?{name}={token}", token="")
        assert answer.status == 401


async def test_forwarding_needs_a_claim_at_the_target_besides(
    server: ServerProcess,
) -> None:
    call = Caller(server)
    for name in (
        "ServiceBusSupplementaryAuthorization",
        "ServiceBusDlqSupplementaryAuthorization",
    ):
        body = entry(
            "Queue",
            "<ForwardTo>sb://bus/target</ForwardTo>"
            "<ForwardDeadLetteredMessagesTo>target</ForwardDeadLetteredMessagesTo>",
        )
        for token in (
            call.token(key="of another bus"),
            call.token(seconds=-1),
            call.token("another"),
            call.token(key_name="listener", key="only-listening"),
        ):
            answer = await call("PUT", "/forwards", body, **{name: token})
            assert answer.status == 401
    assert (await call("GET", "/forwards")).status == 404
