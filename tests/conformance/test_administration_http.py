"""SB-A Administration by plain HTTP: requests that the SDKs never send."""

import http.client
import ssl
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest

from twinbus.auth import sas
from twinbus.testing import Bus

ATOM = "{http://www.w3.org/2005/Atom}"
CONNECT = "{http://schemas.microsoft.com/netservices/2010/10/servicebus/connect}"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def detail(self) -> str:
        """Of an error."""
        root = ElementTree.fromstring(self.body)
        assert root.findtext("Code") == str(self.status)
        return str(root.findtext("Detail"))

    @property
    def titles(self) -> list[str]:
        """Of the entries of a feed."""
        feed = ElementTree.fromstring(self.body)
        return [
            str(entry.findtext(f"{ATOM}title")) for entry in feed.iter(f"{ATOM}entry")
        ]

    @property
    def links(self) -> dict[str, str]:
        feed = ElementTree.fromstring(self.body)
        return {
            link.attrib["rel"]: link.attrib["href"]
            for link in feed.findall(f"{ATOM}link")
        }

    def value(self, name: str) -> str | None:
        """Of the description in an entry."""
        return next(ElementTree.fromstring(self.body).iter(f"{CONNECT}{name}")).text


class Caller:
    """Plain HTTP with tokens made by hand."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus

    def token(
        self,
        resource: str = "",
        *,
        seconds: float = 60,
        key_name: str | None = None,
        key: str | None = None,
    ) -> str:
        return sas.make(
            resource=f"http://localhost:{self.bus.port}/{resource}",
            key_name=key_name or self.bus.key_name,
            key=key or self.bus.key,
            expires_at=self.bus.clock.now() + round(seconds * 1000),
        )

    def __call__(
        self,
        method: str,
        target: str,
        body: str | bytes = b"",
        *,
        token: str | None = None,
        connection: http.client.HTTPConnection | None = None,
        **headers: str,
    ) -> Answer:
        token = self.token() if token is None else token
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["Authorization"] = token
        own = connection or http.client.HTTPConnection("localhost", self.bus.port, 20)
        try:
            own.request(method, target, body, sent)
            response = own.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            own.close()


@pytest.fixture(scope="module")
def bus(new_bus: Callable[..., Any]) -> Iterator[Bus]:
    with new_bus(tls=True) as running:
        yield running


@pytest.fixture(scope="module")
def call(bus: Bus) -> Caller:
    return Caller(bus)


def entry(kind: str = "Queue", inner: str = "") -> str:
    return (
        '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">'
        f'<{kind}Description xmlns="{CONNECT[1:-1]}">{inner}</{kind}Description>'
        "</content></entry>"
    )


# --- one port -------------------------------------------------------------------


def test_the_same_port_speaks_http_and_https(bus: Bus, call: Caller) -> None:
    """SB-A-100"""
    context = ssl.create_default_context(cafile=bus.ca_file)
    secure = http.client.HTTPSConnection("localhost", bus.port, context=context)
    for connection in (None, secure):
        answer = call("GET", "/$Resources/queues", connection=connection)
        assert answer.status == 200
    assert answer.links["self"].startswith(f"https://localhost:{bus.port}/")


def test_health_is_asked_without_a_token(call: Caller) -> None:
    """SB-A-101"""
    answer = call("GET", "/health", token="")
    assert (answer.status, answer.body) == (200, b"healthy\n")
    assert call("HEAD", "/health", token="").status == 200
    assert call("POST", "/health", token="").status == 405


def test_a_queue_may_be_called_health(call: Caller) -> None:
    """SB-A-102"""
    assert call("PUT", "/health?api-version=2021-05", entry()).status == 201
    answer = call("GET", "/health?api-version=2021-05")
    assert answer.value("MaxDeliveryCount") == "10"
    assert call("DELETE", "/health?api-version=2021-05").status == 200


# --- entries and feeds ----------------------------------------------------------


def test_an_entry_names_itself_twice(bus: Bus, call: Caller) -> None:
    """SB-A-110 JavaScript reads the id, Python and .NET the title."""
    call("PUT", "/names/topic", entry("Topic"))
    call("PUT", "/names/topic/subscriptions/one", entry("Subscription"))
    root = f"http://localhost:{bus.port}/names/topic"
    for target, id, title in (
        ("/names/topic", root, "names/topic"),
        ("/names/topic/subscriptions/one", f"{root}/Subscriptions/one", "one"),
        (
            "/names/topic/subscriptions/one/rules/$Default",
            f"{root}/Subscriptions/one/Rules/$Default",
            "$Default",
        ),
    ):
        found = ElementTree.fromstring(
            call("GET", f"{target}?api-version=2024-05").body
        )
        assert found.findtext(f"{ATOM}id") == f"{id}?api-version=2024-05"
        assert found.findtext(f"{ATOM}title") == title


def test_media_types(call: Caller) -> None:
    """SB-A-111"""
    kind = "application/atom+xml;type={};charset=utf-8"
    answer = call("GET", "/$namespaceinfo")
    assert answer.headers["content-type"] == kind.format("entry")
    answer = call("GET", "/$Resources/topics")
    assert answer.headers["content-type"] == kind.format("feed")


@pytest.mark.parametrize("target", ["/$Resources/queues", "/%24Resources/Queues/"])
@pytest.mark.parametrize("dollar", ["$", "%24"])
def test_pages_lead_to_one_another(call: Caller, target: str, dollar: str) -> None:
    """SB-A-112"""
    names = [f"page/{number}" for number in range(5)]
    for name in names:
        call("PUT", f"/{name}", entry())
    wanted = "startswith(path,'PAGE/')%20eq%20true"
    following = f"{target}?{dollar}skip=0&{dollar}top=2&{dollar}filter={wanted}"
    found: list[list[str]] = []
    while following:
        answer = call("GET", following)
        found.append(answer.titles)
        links = answer.links
        assert len(links) == (2 if len(found) < 3 else 1)
        following = links.get("next", "").partition(str(call.bus.port))[2]
    assert found == [names[:2], names[2:4], names[4:]]


def test_empty_lists_are_feeds_without_entries(call: Caller) -> None:
    """SB-A-113"""
    answer = call(
        "GET", "/$Resources/queues?$filter=startswith(path,'none')%20eq%20true"
    )
    assert (answer.status, answer.titles) == (200, [])
    assert list(answer.links) == ["self"]


@pytest.mark.parametrize("query", ["$skip=-1", "$top=x", "$filter=path%20eq%20'x'"])
def test_queries_that_are_none(call: Caller, query: str) -> None:
    """SB-A-114"""
    answer = call("GET", f"/$Resources/queues?{query}")
    assert answer.status == 400
    assert "SubCode=40000" in answer.detail


# --- conditions -----------------------------------------------------------------


def test_an_etag_changes_with_the_description(call: Caller) -> None:
    """SB-A-120"""
    created = call("PUT", "/tagged", entry())
    tag = created.headers["etag"]
    assert call("GET", "/tagged").headers["etag"] == tag
    four = entry(inner="<MaxDeliveryCount>4</MaxDeliveryCount>")
    updated = call("PUT", "/tagged", four, If_Match=tag)
    assert updated.status == 200
    assert updated.headers["etag"] != tag
    late = call("PUT", "/tagged", entry(), If_Match=tag)
    assert late.status == 412
    assert "changed" in late.detail
    assert call("GET", "/tagged").value("MaxDeliveryCount") == "4"
    assert call("DELETE", "/tagged", If_Match=tag).status == 412
    assert call("DELETE", "/tagged", If_Match=updated.headers["etag"]).status == 200


def test_a_star_is_any_etag(call: Caller) -> None:
    """SB-A-121"""
    assert call("PUT", "/starred", entry(), If_Match="*").status == 404
    assert call("PUT", "/starred", entry()).status == 201
    again = call("PUT", "/starred", entry())
    assert again.status == 409
    assert "SubCode=40900" in again.detail
    assert call("PUT", "/starred", entry(), If_Match="*").status == 200
    assert call("DELETE", "/starred").status == 200


# --- refusals -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "body", "said"),
    [
        ("/q", "", "not well-formed"),
        ("/q", "<entry>", "not well-formed"),
        ("/q", "<entry/>", "must be an Atom entry"),
        ("/q", entry("Subscription"), "expected QueueDescription or TopicDescription"),
        ("/t/subscriptions/s", entry(), "expected SubscriptionDescription"),
        ("/t/subscriptions/s/rules/r", entry(), "expected RuleDescription"),
        ("/q", "<!DOCTYPE x><entry/>", "document type"),
        ("/q", entry(inner="<a>" * 50 + "</a>" * 50), "deep"),
        ("/q", entry(inner="<LockDuration>1h</LockDuration>"), "lock_duration"),
    ],
)
def test_bodies_that_are_no_description(
    call: Caller, target: str, body: str, said: str
) -> None:
    """SB-A-130"""
    answer = call("PUT", target, body)
    assert answer.status == 400
    assert answer.detail.startswith("SubCode=40000. ")
    assert said in answer.detail
    assert "TrackingId:" in answer.detail


def test_bodies_that_are_too_large(call: Caller) -> None:
    """SB-A-131"""
    answer = call("PUT", "/q", entry(inner="x" * 70_000))
    assert answer.status == 413
    assert b"65536 bytes" in answer.body


@pytest.mark.parametrize("method", ["POST", "PATCH", "OPTIONS"])
def test_methods_that_there_are_not(call: Caller, method: str) -> None:
    """SB-A-132"""
    answer = call(method, "/q")
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, PUT, DELETE"


def test_lists_are_read_only(call: Caller) -> None:
    """SB-A-133"""
    for target in ("/$Resources/queues", "/t/subscriptions", "/$namespaceinfo"):
        assert call("PUT", target, entry()).status == 405
        assert call("DELETE", target).status == 405


# --- tokens ---------------------------------------------------------------------


def test_what_is_wrong_with_a_token(call: Caller) -> None:
    """SB-A-140"""
    for token, said in (
        ("", "MissingToken"),
        ("Bearer eyJ0eXAi", "MalformedToken"),
        (call.token(seconds=-5), "ExpiredToken"),
        (call.token(key="wrong"), "InvalidSignature"),
        (call.token(key_name="nobody"), "InvalidSignature"),
        ("SharedAccessSignature sr=x", "no field 'sig'"),
    ):
        answer = call("GET", "/$Resources/queues", token=token)
        assert answer.status == 401
        assert said in answer.detail


def test_a_token_is_for_what_it_names(call: Caller) -> None:
    """SB-A-141"""
    call("PUT", "/mine", entry())
    call("PUT", "/yours", entry())
    token = call.token("mine")
    assert call("GET", "/mine", token=token).status == 200
    assert call("GET", "/yours", token=token).status == 401
    assert call("GET", "/$Resources/queues", token=token).status == 401


def test_a_rule_of_an_entity_administers_the_entity(call: Caller) -> None:
    """SB-A-142"""
    rules = (
        "<AuthorizationRules><AuthorizationRule><KeyName>chief</KeyName>"
        "<PrimaryKey>own</PrimaryKey><Rights><AccessRights>Manage</AccessRights>"
        "<AccessRights>Send</AccessRights><AccessRights>Listen</AccessRights></Rights>"
        "</AuthorizationRule></AuthorizationRules>"
    )
    call("PUT", "/governed", entry(inner=rules))
    token = call.token("governed", key_name="chief", key="own")
    assert call("GET", "/governed", token=token).status == 200
    assert call("DELETE", "/governed", token=token).status == 200
    assert call("GET", "/starred", token=token).status == 401


def test_what_is_not_there_is_not_found_without_manage_too(
    bus: Bus, call: Caller
) -> None:
    """SB-A-146 Clients look for entities with whatever key they have."""
    bus.create_topic("seen")
    bus.create_subscription("seen", "one")
    key = dict(
        part.split("=", 1) for part in bus.connection_string_for("Listen").split(";")
    )
    token = call.token(key_name=key["SharedAccessKeyName"], key=key["SharedAccessKey"])
    for target in (
        *("/unseen", "/unseen/Subscriptions/one", "/seen/Subscriptions/two"),
        "/seen/Subscriptions/one/Rules/two",
    ):
        assert call("GET", target, token=token).status == 404, target
        assert call("DELETE", target, token=token).status == 401, target
        assert call("GET", target, token="").status == 401, target
        assert call("GET", target, token=call.token(key="wrong")).status == 401, target
        assert call("GET", target, token=call.token("seem")).status == 401, target
    for target in ("/seen", "/seen/Subscriptions/one", "/$Resources/queues"):
        assert call("GET", target, token=token).status == 401, target


def test_a_websocket_is_offered_at_its_path_alone(call: Caller) -> None:
    """SB-A-147 401 would read as a wrong key; nobody has shown one yet."""
    answer = call(
        *("GET", "/$servicebus/other"),
        token="",
        Connection="Upgrade",
        Upgrade="WebSocket",
        Sec_WebSocket_Protocol="AMQPWSB10",
        Sec_WebSocket_Version="13",
        Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==",
    )
    assert answer.status == 404
    assert answer.headers["content-type"].startswith("text/plain")
    assert b"/$servicebus/websocket" in answer.body


def test_rules_keep_the_dollar_in_their_address(bus: Bus, call: Caller) -> None:
    """SB-A-148 The SDK for JavaScript shows the name as it is written there."""
    bus.create_topic("ruled")
    bus.create_subscription("ruled", "one")
    found = call("GET", "/ruled/Subscriptions/one/Rules").body
    assert b"/Rules/$Default?" in found
    assert b"%24Default" not in found


def test_forwarding_needs_a_right_at_the_target(call: Caller) -> None:
    """SB-A-143 by the main token, or by one in a header of its own."""
    call("PUT", "/target", entry())
    rules = (
        "<AuthorizationRules><AuthorizationRule><KeyName>chief</KeyName>"
        "<PrimaryKey>own</PrimaryKey><Rights><AccessRights>Manage</AccessRights>"
        "<AccessRights>Send</AccessRights><AccessRights>Listen</AccessRights></Rights>"
        "</AuthorizationRule></AuthorizationRules>"
    )
    call("PUT", "/source", entry(inner=rules))
    own = call.token("source", key_name="chief", key="own")
    for element, header in (
        ("ForwardTo", "ServiceBusSupplementaryAuthorization"),
        (
            "ForwardDeadLetteredMessagesTo",
            "ServiceBusDlqSupplementaryAuthorization",
        ),
    ):
        body = entry(inner=f"{rules}<{element}>target</{element}>")
        refused = call("PUT", "/source", body, token=own, If_Match="*")
        assert refused.status == 401
        wrong = {header: call.token("source", key_name="chief", key="own")}
        refused = call("PUT", "/source", body, token=own, If_Match="*", **wrong)
        assert refused.status == 401
        right = {header: call.token("target")}
        taken = call("PUT", "/source", body, token=own, If_Match="*", **right)
        assert taken.status == 200
        assert taken.value(element) == f"sb://localhost:{call.bus.port}/target"
