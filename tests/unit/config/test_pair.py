"""The section [pair] of the configuration."""

from pathlib import Path

import pytest

from twinbus.config.config import ConfigError, load_config
from twinbus.config.pair import PairConfig, pair_of_table

TEXT = "Endpoint=sb://site-a;SharedAccessKeyName=n;SharedAccessKey=hush"


def test_a_primary_is_enough() -> None:
    assert pair_of_table({"primary": TEXT}, {}) == PairConfig(primary=TEXT)


def test_all_of_it() -> None:
    section = {
        "primary": "env:SITE_A",
        "secondary": TEXT,
        "primary_name": "site-a",
        "secondary_name": "site-b",
        "cover": ["orders*", "sales"],
        "backlog_queue_count": 3,
        "count_backlog_against_ttl": True,
        "missing_entity_grace": "10m",
    }
    assert pair_of_table(section, {"SITE_A": TEXT}) == PairConfig(
        primary=TEXT,
        secondary=TEXT,
        primary_name="site-a",
        secondary_name="site-b",
        cover=("orders*", "sales"),
        backlog_queue_count=3,
        count_backlog_against_ttl=True,
        missing_entity_grace_ms=600_000,
    )


def test_a_file_may_have_the_connection_string(tmp_path: Path) -> None:
    (tmp_path / "site-a").write_text(f"{TEXT}\n")
    (tmp_path / "bus.toml").write_text(
        f'[pair]\nprimary = "file:{tmp_path / "site-a"}"\n'
    )
    config = load_config(tmp_path / "bus.toml", {}, {})
    assert config.pair == PairConfig(primary=TEXT)
    assert "hush" not in repr(config)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({}, "primary: is missing"),
        ({"primary": "hush"}, "primary: is not a connection string"),
        ({"primary": "env:NONE"}, "there is no variable NONE"),
        ({"primary": "file:/none"}, "No such file"),
        ({"primary": 7}, "primary: is not a text"),
        ({"primary": TEXT, "cover": []}, "cover"),
        ({"primary": TEXT, "cover": [""]}, "cover"),
        ({"primary": TEXT, "backlog_queue_count": 0}, "backlog_queue_count: 0"),
        ({"primary": TEXT, "backlog_queue_count": True}, "backlog_queue_count"),
        ({"primary": TEXT, "count_backlog_against_ttl": 1}, "neither true nor false"),
        ({"primary": TEXT, "missing_entity_grace": "soon"}, "missing_entity_grace"),
        ({"primary": TEXT, "primary_name": 1}, "primary_name"),
        ({"primary": TEXT, "secundary": TEXT}, "unknown setting 'secundary'"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_secret(
    section: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as error:
        pair_of_table(section, {})
    assert "hush" not in str(error.value)


def test_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bus.toml").write_text("[pair]\n")
    with pytest.raises(ConfigError, match=r"bus\.toml"):
        load_config(tmp_path / "bus.toml", {}, {})
