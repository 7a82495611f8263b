"""Warnings at the start about keys that others can guess or read.

Such keys are accepted all the same: a bus for tests has simple keys.
"""

from collections.abc import Iterable, Iterator

from twinbus.broker.descriptions.access_rule import ROOT_KEY_NAME, AccessRule
from twinbus.config.config import Config
from twinbus.config.entities import DeclaredEntities
from twinbus.limits import KEY_CHARACTERS
from twinbus.process.data_folder import RootKey


def key_warnings(config: Config, root: RootKey) -> Iterator[str]:
    """One line for each kind of trouble; never a key."""
    named = [(ROOT_KEY_NAME, root.text), *_configured(config)]
    short = dict.fromkeys(name for name, key in named if 0 < len(key) < KEY_CHARACTERS)
    if short:
        yield (
            f"the key of {', '.join(short)} has fewer than {KEY_CHARACTERS} characters "
            "and can be guessed. Outside of tests use a random one, such as "
            "'openssl rand -base64 32' prints."
        )
    if root.is_exposed:
        yield (
            f"{root.file} holds the key to everything and is not its owner's alone. "
            f"Make it so: chmod 600 {root.file}"
        )


def _configured(config: Config) -> Iterator[tuple[str, str]]:
    """Rules of the configuration and what each proves its rights by."""
    own = DeclaredEntities(queues=config.queues, topics=config.topics)
    yield from _of_namespace(config.rules, own, "")
    for name, declared in config.namespaces.items():
        rules = declared.fixed_rules
        yield from _of_namespace(rules, declared.entities, f" of namespace '{name}'")


def _of_namespace(
    rules: Iterable[AccessRule], entities: DeclaredEntities, where: str
) -> Iterator[tuple[str, str]]:
    for rule in rules:
        yield from _keys(f"{rule.key_name}{where}", rule)
    topics = {path: topic.properties for path, topic in entities.topics.items()}
    for path, properties in {**entities.queues, **topics}.items():
        for rule in properties.get("authorization_rules", ()):
            yield from _keys(f"{rule.key_name} of '{path}'{where}", rule)


def _keys(name: str, rule: AccessRule) -> Iterator[tuple[str, str]]:
    yield name, rule.primary_key
    yield name, rule.secondary_key
