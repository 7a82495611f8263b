"""The table of settings: each row is complete, and its default is allowed."""

import re

import pytest

from twinbus.config.settings import SETTINGS, Setting, Settings


def test_names_follow_from_one_name() -> None:
    setting = SETTINGS["max_message_bytes"]
    assert setting.flag == "--max-message-bytes"
    assert setting.variable == "TWINBUS_MAX_MESSAGE_BYTES"


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS.keys())
def test_default_is_a_value_that_may_be_written(setting: Setting) -> None:
    default = getattr(Settings(), setting.name)
    assert setting.default == default
    assert setting.kind.read(setting.written_default) == default


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS.keys())
def test_every_row_says_what_it_is_for(setting: Setting) -> None:
    assert re.fullmatch(r"[A-Z].*\.", setting.help)
    assert setting.written_default or setting.if_empty
    # A flag without a value has none to stand for.
    assert bool(setting.metavar) == (setting.default is not False)


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(Settings(key="secret"))
    assert "port=5672" in repr(Settings())
