"""The file of contexts: private, whole, and without a word about secrets."""

from pathlib import Path

import pytest

from twinbus.cli import exit_codes
from twinbus.cli.contexts.context_choice import current_context, named_context
from twinbus.cli.contexts.context_file import (
    ContextEntry,
    Contexts,
    check_context_name,
    contexts_path,
    load_contexts,
    save_contexts,
)
from twinbus.cli.failure import Failure

TEXT = "Endpoint=sb://site-a;SharedAccessKeyName=root;SharedAccessKey=hush"


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


def test_what_is_saved_is_loaded_and_nobody_else_may_read_it(
    variables: dict[str, str],
) -> None:
    file = contexts_path(variables)
    saved = Contexts({"a": ContextEntry("a", TEXT, "/ca.pem")}, "a")
    save_contexts(file, saved)
    save_contexts(file, saved)
    assert load_contexts(file) == saved
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert [one.name for one in file.parent.iterdir()] == ["contexts.json"]


def test_relative_config_folder_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    expected = Path("/nonexistent/.config/twinbus/contexts.json")
    assert contexts_path({"XDG_CONFIG_HOME": "config"}) == expected
    assert contexts_path({}) == expected


def test_variable_goes_before_the_current_one(variables: dict[str, str]) -> None:
    assert current_context(variables) is None
    entries = {name: ContextEntry(name, TEXT) for name in ("a", "b")}
    save_contexts(contexts_path(variables), Contexts(entries, "a"))
    found = current_context(variables)
    assert found is not None and found.name == "a"
    found = current_context({**variables, "TWINBUS_CONTEXT": "b"})
    assert found is not None and found.name == "b"
    with pytest.raises(Failure, match=r"no context 'c'; there are: a, b") as refused:
        named_context("c", variables)
    assert refused.value.exit_code == exit_codes.NOT_FOUND


def test_secrets_may_be_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hush\n")
    (tmp_path / "whole").write_text(TEXT)
    by_key = ContextEntry("a", TEXT.replace("hush", f"file:{tmp_path / 'key'}"))
    assert by_key.connection_string({}) == TEXT
    assert by_key.secret_place() == f"file:{tmp_path / 'key'}"
    whole = ContextEntry("a", f"file:{tmp_path / 'whole'}")
    assert whole.connection_string({}) == TEXT
    variable = ContextEntry("a", TEXT.replace("hush", "env:KEY"))
    assert variable.connection_string({"KEY": "hush"}) == TEXT
    with pytest.raises(Failure, match="no variable KEY"):
        variable.connection_string({})


def test_secret_is_not_shown() -> None:
    entry = ContextEntry("a", TEXT)
    assert "hush" not in repr(entry)
    assert "hush" not in entry.secret_place()


@pytest.mark.parametrize("content", ["", "[]", '{"format": 9}', '{"format": 1}'])
def test_damaged_file_is_not_overwritten_in_silence(
    tmp_path: Path, content: str
) -> None:
    file = tmp_path / "contexts.json"
    file.write_text(content)
    with pytest.raises(Failure, match=r"it is damaged\. Mend or remove"):
        load_contexts(file)


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "x" * 65])
def test_names_are_short_words(name: str) -> None:
    with pytest.raises(Failure, match="can't be the name"):
        check_context_name(name)
