"""Paths: which entity they name, in every spelling of the SDKs."""

import pytest

from twinbus.entities.resource import Kind, Resource, parse_resource


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("$Resources/queues", Kind.QUEUES),
        ("$Resources/Queues", Kind.QUEUES),
        ("$resources/TOPICS", Kind.TOPICS),
        ("$namespaceinfo", Kind.NAMESPACE),
        ("$NamespaceInfo", Kind.NAMESPACE),
    ],
)
def test_fixed_paths(path: str, kind: Kind) -> None:
    found = parse_resource(path)
    assert found == Resource(kind=kind)
    assert found.is_collection


@pytest.mark.parametrize("path", ["q", "a/b/c", "subscriptions", "a/rules", "Health"])
def test_other_paths_are_queues_or_topics(path: str) -> None:
    found = parse_resource(path)
    assert found == Resource(kind=Kind.ENTITY, entity=path)
    assert not found.is_collection


@pytest.mark.parametrize("word", ["subscriptions", "Subscriptions"])
@pytest.mark.parametrize("topic", ["t", "a/b", "subscriptions"])
def test_subscriptions_are_parsed(word: str, topic: str) -> None:
    everything = parse_resource(f"{topic}/{word}")
    assert everything.kind is Kind.SUBSCRIPTIONS
    assert (everything.entity, everything.is_collection) == (topic, True)
    for name in ("S", "rules", "subscriptions"):
        one = parse_resource(f"{topic}/{word}/{name}")
        assert one.kind is Kind.SUBSCRIPTIONS
        assert (one.entity, one.subscription, one.is_collection) == (topic, name, False)


@pytest.mark.parametrize("word", ["rules", "Rules"])
def test_rules_are_parsed(word: str) -> None:
    everything = parse_resource(f"a/t/subscriptions/s/{word}")
    assert everything.kind is Kind.RULES
    assert (everything.entity, everything.subscription) == ("a/t", "s")
    assert everything.is_collection
    one = parse_resource(f"a/t/subscriptions/s/{word}/$Default")
    assert (one.kind, one.rule, one.is_collection) == (Kind.RULES, "$Default", False)
