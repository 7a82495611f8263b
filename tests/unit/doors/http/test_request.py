"""Requests: parsing of their targets."""

import pytest

from twinbus.doors.http.request import HttpRequest


def request(target: str, **headers: str) -> HttpRequest:
    return HttpRequest(method="GET", target=target, headers=headers)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/", ""),
        ("/a/b/", "a/b"),
        ("/a%2Fb?x=/y", "a/b"),
        ("/%24Resources/queues", "$Resources/queues"),
        ("http://bus:5300/a/b?x", "a/b"),
        ("/%C3%A9%FF", "\u00e9\ufffd"),
        ("*", "*"),
        ("/a://b/c", "a://b/c"),
        ("/a/http://b/$faults", "a/http://b/$faults"),
        ("//b/c", "b/c"),
    ],
)
def test_paths_are_decoded(target: str, path: str) -> None:
    assert request(target).path == path


def test_queries_are_decoded_and_names_have_no_case() -> None:
    found = request("/q?%24Skip=5&$top=10&API-version=2021-05&empty=&x=1&x=2").query
    assert found == {
        "$skip": "5",
        "$top": "10",
        "api-version": "2021-05",
        "empty": "",
        "x": "2",
    }


def test_the_root_is_how_the_client_knows_us() -> None:
    assert request("/", host="bus:5672").root == "http://bus:5672"
    secure = HttpRequest(
        method="GET", target="/", headers={"host": "bus"}, is_secure=True
    )
    assert secure.root == "https://bus"
    assert request("/").root == "http://localhost"


def test_the_root_can_be_in_a_header_of_a_response() -> None:
    assert request("/", host="h\xe9:1").root == "http://h?:1"
