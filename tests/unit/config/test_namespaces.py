"""Sections `[namespaces.NAME]` of the configuration file."""

from pathlib import Path

import pytest

from twinbus.broker.descriptions.access_rule import ROOT_KEY_NAME
from twinbus.config.config import Config, ConfigError, load_config


def loaded(folder: Path, text: str) -> Config:
    file = folder / "bus.toml"
    file.write_text(text)
    return load_config(file, {}, {})


def test_parts_of_a_namespace_are_read(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        """
        [namespaces.shop]
        key = "secret"
        ports = [5673, 5674]
        [namespaces.shop.queues.orders]
        max_delivery_count = 3
        [namespaces.shop.topics.news.subscriptions.all]
        [[namespaces.shop.rules]]
        key_name = "worker"
        primary_key = "other"
        rights = ["Send"]
        [namespaces.empty]
        """,
    ).namespaces
    shop = found["shop"]
    assert shop.ports == (5673, 5674)
    assert shop.entities.queues == {"orders": {"max_delivery_count": 3}}
    assert list(shop.entities.topics["news"].subscriptions) == ["all"]
    assert [rule.key_name for rule in shop.fixed_rules] == [ROOT_KEY_NAME, "worker"]
    assert "secret" not in repr(shop)
    assert found["empty"].fixed_rules == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[namespaces.1st]", "cannot be the name"),
        ("[namespaces.twinbus]", "is the name of the default namespace"),
        ("[namespaces.shop]\n[namespaces.SHOP]", "letter case"),
        ("[namespaces.shop]\nport = 1", "port"),
        ("[namespaces.shop]\nports = [0]", "list of numbers"),
        ("[namespaces.shop]\nports = ['a']", "list of numbers"),
        ("[namespaces.shop]\nports = [1, 2, 3, 4, 5]", "4 at most"),
        ("[namespaces.shop]\nkey = 5", "must be text"),
        ("[namespaces]\nshop = 5", "must be a table"),
        ("[namespaces.shop.queues.q]\nlock_duration = 'x'", "lock_duration"),
        ("[namespaces.shop]\nrules = 1", r"\[\[namespaces.shop.rules\]\]"),
    ],
)
def test_mistakes_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        loaded(tmp_path, text)
