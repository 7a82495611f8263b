"""Malicious descriptions: XML that expands, nests or lies, and invalid values.

Each is answered with a documented status and a detail that names the problem; a refused
request has no effect.
"""

import asyncio
from collections.abc import Iterator

import pytest
from crash.server_process import ServerProcess
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile.caller import ATOM, Caller, entry
from hostile.witness import Witness

LAUGHS = "".join(
    f'<!ENTITY a{level} "{f"&a{level - 1};" * 10}">' for level in range(1, 10)
)
BOMBS = {
    "laughs": f'<!DOCTYPE e [<!ENTITY a0 "ha">{LAUGHS}]><e>&a9;</e>',
    "quadratic": f'<!DOCTYPE e [<!ENTITY a "{"x" * 20_000}">]><e>{"&a;" * 5_000}</e>',
    "file": '<!DOCTYPE e [<!ENTITY a SYSTEM "file:///etc/passwd">]><e>&a;</e>',
    "fetch": '<!DOCTYPE e SYSTEM "http://127.0.0.1:1/x.dtd"><e/>',
    "parameter": '<!DOCTYPE e [<!ENTITY % a "x"> %a;]><e/>',
    "attributes": '<!DOCTYPE e [<!ATTLIST e a CDATA "x">]><e/>',
    "deep": "<a>" * 15_000,
    "deep-and-closed": "<a>" * 5_000 + "</a>" * 5_000,
    "wide": entry("Queue", "<x/>" * 14_000) + "x",
    "names": "<e " + " ".join(f"a{number}=''" for number in range(6_000)),
    "prefixes": "<e " + " ".join(f"xmlns:a{number}='u'" for number in range(3_000)),
    "unbound": "<a:entry/>",
    "twice": "<e a='1' a='2'/>",
    "nothing": "",
    "text": "queue",
    "json": '{"queue": true}',
    "half": entry("Queue")[:-10],
    "two": entry("Queue") * 2,
    "nul": "<e>\0</e>",
    "control": "<e>\x08</e>",
    "reference": "<e>&#0;</e>",
    "surrogate": "<e>&#xD800;</e>",
    "unknown-entity": "<e>&nbsp;</e>",
    "encoding": '<?xml version="1.0" encoding="klingon"?><e/>',
    "lying-encoding": '<?xml version="1.0" encoding="utf-16"?><e/>',
    "codec": '<?xml version="1.0" encoding="zlib_codec"?><e/>',
    "version": '<?xml version="9.9"?><e/>',
    "no-entry": "<e/>",
    "no-content": f'<entry xmlns="{ATOM}"/>',
    "no-description": f'<entry xmlns="{ATOM}"><content>x</content></entry>',
    "another": entry("Rule"),
    "unknown": entry("Gadget"),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Of a bus that sets faults."""
    folder = tmp_path_factory.mktemp("faulty")
    with ServerProcess(folder, flags=("--allow-faults",)) as running:
        running.start_now()
        yield Caller(running)
        assert "Traceback" not in running.errors, running.errors


@pytest.mark.parametrize("name", BOMBS)
async def test_documents_that_are_no_description(
    server: ServerProcess, name: str
) -> None:
    call = Caller(server)
    before = server.memory_bytes()
    async with Witness(server):
        answer = await call("PUT", "/made-by-a-bomb", BOMBS[name])
        assert answer.status == 400
        assert answer.detail.startswith("SubCode=40000. The ")
        assert "root:" not in answer.detail
        assert (await call("GET", "/made-by-a-bomb")).status == 404
    assert server.memory_bytes() - before < 32 * 1024 * 1024


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "latin-1"])
async def test_documents_in_other_encodings(
    server: ServerProcess, encoding: str
) -> None:
    """What says its encoding is read; bytes that are none of it are refused."""
    call = Caller(server)
    body = entry("Queue", "<UserMetadata>\u00e9</UserMetadata>").encode(encoding)
    answer = await call("PUT", f"/in-{encoding}", body)
    assert answer.status == (400 if encoding == "latin-1" else 201)


@pytest.mark.parametrize(
    "body",
    [b"\xff\xfe\xfd", b"\0" * 1_000, b"<\xc3\x28/>", b"\xef\xbb\xbf", b"\x1f\x8b"],
)
async def test_bytes_that_are_no_document(server: ServerProcess, body: bytes) -> None:
    call = Caller(server)
    async with Witness(server):
        answer = await call("PUT", "/made-of-bytes", body)
        assert (answer.status, answer.detail[:14]) == (400, "SubCode=40000.")


@pytest.mark.parametrize("target", ["/$namespaces", "/$faults"])
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 60_000,
        b'{"name":' * 8_000,
        b"9" * 60_000,
        b'"\xff"',
        b'{"name":"\\ud800"}',
        b'{"ports":[1e999]}',
        b"null",
        b"",
    ],
    ids=["lists", "objects", "digits", "bytes", "half", "huge", "null", "nothing"],
)
async def test_json_that_means_nothing(
    target: str, body: bytes, faulty: Caller
) -> None:
    answer = await faulty("POST", target, body)
    assert answer.status == 400, answer


# What no element of a description takes, in any of their types.
VALUES = (
    *("", "x", "-1", "1e9", "9" * 30_000, "NaN", "\u0661", "P", "PT", "PT0S", "PT-1S"),
    *("P1Y", "PT1.S", "1,5", "0x10", "true false", "\u00a0", "\U0001f600", "Nul&#x9;"),
    *("P99999999999999999999D", "PT0.0000001S", "-P1D", "Active ", "Deleting"),
)
NUMBERS = ("MaxSizeInMegabytes", "MaxDeliveryCount", "MaxMessageSizeInKilobytes")
DURATIONS = (
    *("LockDuration", "DefaultMessageTimeToLive", "AutoDeleteOnIdle"),
    "DuplicateDetectionHistoryTimeWindow",
)
BOOLEANS = (
    *("RequiresDuplicateDetection", "RequiresSession", "EnablePartitioning"),
    *("EnableBatchedOperations", "EnableExpress", "DeadLetteringOnMessageExpiration"),
)


@pytest.mark.parametrize("element", (*NUMBERS, *DURATIONS, *BOOLEANS, "Status"))
async def test_values_that_are_none(server: ServerProcess, element: str) -> None:
    """Some mean something for some elements; the rest are refused by name."""
    call = Caller(server)
    async with Witness(server):
        for value in VALUES:
            body = entry("Queue", f"<{element}>{value}</{element}>")
            answer = await call("PUT", "/valued", body)
            if answer.status == 201:
                assert (await call("DELETE", "/valued")).status == 200
                continue
            assert (answer.status, answer.detail[:14]) == (400, "SubCode=40000.")
            assert "valued" in answer.detail
        for nested in (f"<{element}/>", f"<{element}><a>1</a></{element}>"):
            answer = await call("PUT", "/valued", entry("Queue", nested))
            assert answer.status in (201, 400)
            await call("DELETE", "/valued")


@pytest.mark.parametrize(
    ("element", "first", "second"),
    [
        ("RequiresSession", "true", "false"),
        ("RequiresSession", "false", "true"),
        ("RequiresDuplicateDetection", "false", "true"),
        ("RequiresDuplicateDetection", "true", "false"),
        ("EnablePartitioning", "false", "true"),
    ],
)
async def test_update_of_what_is_decided_at_creation(
    server: ServerProcess, element: str, first: str, second: str
) -> None:
    call = Caller(server)
    path = f"/decided-{element}-{first}"
    async with Witness(server):
        body = entry("Queue", f"<{element}>{first}</{element}>")
        assert (await call("PUT", path, body)).status == 201
        body = entry("Queue", f"<{element}>{second}</{element}>")
        answer = await call("PUT", path, body, If_Match="*")
        assert (answer.status, answer.detail[:14]) == (403, "SubCode=40301.")
        assert "cannot be changed" in answer.detail
        kept = (await call("GET", path)).body.decode()
        assert f"<{element}>{first}</{element}>" in kept


async def test_update_of_another_kind_or_of_nothing(server: ServerProcess) -> None:
    call = Caller(server)
    async with Witness(server):
        for path, kind, status in (
            ("/nothing-here", "Queue", 404),
            ("/nothing-here", "Topic", 404),
            ("/target", "Topic", 404),
            ("/news", "Queue", 404),
            ("/news/subscriptions/none", "Subscription", 404),
            ("/none/subscriptions/all", "Subscription", 404),
            ("/news/subscriptions/all/rules/none", "Rule", 404),
            ("/news/subscriptions/all", "Queue", 400),
            ("/target", "Subscription", 400),
        ):
            answer = await call("PUT", path, entry(kind), If_Match="*")
            assert (path, kind, answer.status) == (path, kind, status)


@pytest.mark.parametrize("etag", ["", '"x"', "W/*", "x" * 20_000, "\xff", "*, *", "**"])
async def test_conditions_that_no_entity_meets(
    server: ServerProcess, etag: str
) -> None:
    call = Caller(server)
    async with Witness(server):
        answer = await call("PUT", "/target", entry("Queue"), If_Match=etag)
        assert answer.status == 412
        answer = await call("DELETE", "/target", If_Match=etag)
        assert answer.status == 412


TEXTS = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="<>&"),
    max_size=30,
)


@given(
    elements=st.lists(
        st.tuples(st.sampled_from((*NUMBERS, *DURATIONS, *BOOLEANS, "Status")), TEXTS),
        max_size=6,
    ),
    kind=st.sampled_from(("Queue", "Topic", "Subscription", "Rule")),
    path=st.sampled_from(
        (
            *("/generated", "/news/subscriptions/g", "/news/subscriptions/all/rules/g"),
            *("/target", "/news", "/news/subscriptions/all"),
        )
    ),
    is_update=st.booleans(),
)
@settings(max_examples=60)
def test_any_description_is_taken_or_refused(
    server: ServerProcess,
    elements: list[tuple[str, str]],
    kind: str,
    path: str,
    is_update: bool,
) -> None:
    inner = "".join(f"<{name}>{text}</{name}>" for name, text in elements)
    headers = {"If_Match": "*"} if is_update else {}
    answer = asyncio.run(Caller(server)("PUT", path, entry(kind, inner), **headers))
    assert answer.status in (200, 201, 400, 403, 404, 409)
    if answer.status >= 400:
        assert answer.detail
