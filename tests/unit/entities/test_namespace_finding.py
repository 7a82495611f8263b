"""Which namespace is meant: by host names, and by nothing else."""

import pytest

from twinbus.entities.namespace_finding import label_of, meant_by
from twinbus.errors import NotAllowed

KNOWN = {"twinbus": "the default one", "shop": "the shop", "lab-2": "the lab"}


@pytest.mark.parametrize(
    ("host", "label"),
    [
        ("shop.example.com", "shop"),
        ("SHOP.Example.com:5671", "shop"),
        ("shop", "shop"),
        ("shop:80", "shop"),
        (" shop.localhost. ", "shop"),
        ("localhost:5672", "localhost"),
        ("127.0.0.1", ""),
        ("127.0.0.1:5672", ""),
        ("[::1]:5672", ""),
        ("::1", ""),
        ("fe80::1%eth0", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_label_is_the_first_part_of_a_name_and_no_part_of_an_address(
    host: str | None, label: str
) -> None:
    assert label_of(host) == label


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        (["shop.example.com"], "the shop"),
        (["localhost", "shop.localhost:5672"], "the shop"),
        (["Shop.a", "shop.b", "192.168.0.7"], "the shop"),
        (["lab-2"], "the lab"),
        (["twinbus.example.com"], "the default one"),
        (["elsewhere.example.com", None, ""], None),
        (["127.0.0.1:5672"], None),
        (["example.shop.com"], None),
        (["shop2.example.com"], None),
        ([], None),
    ],
)
def test_names_that_are_no_namespace_say_nothing(
    hosts: list[str | None], found: str | None
) -> None:
    assert meant_by(hosts, KNOWN) == found


@pytest.mark.parametrize(
    "hosts",
    [
        ["shop.example.com", "lab-2.example.com"],
        ["localhost", "lab-2", "127.0.0.1", "shop"],
        ["twinbus.example.com", "shop.example.com"],
    ],
)
def test_two_namespaces_contradict_each_other(hosts: list[str]) -> None:
    with pytest.raises(NotAllowed, match="two namespaces"):
        meant_by(hosts, KNOWN)
