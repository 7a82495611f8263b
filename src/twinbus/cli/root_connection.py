"""The connection with all rights that a data folder gives."""

from twinbus.broker.descriptions.access_rule import ROOT_KEY_NAME
from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.root_key import root_key
from twinbus.config.config import Config, local_connection_string
from twinbus.process.certificates import ca_file


def root_connection(config: Config, is_tls: bool, entity: str) -> dict[str, str | None]:
    """The connection string and its parts. Raises Failure."""
    if config.port == 0:
        raise Failure(
            "The settings let the server take any free port. Name the one that it has "
            "taken, and printed, with --port.",
            exit_codes.USAGE,
        )
    if is_tls and config.tls_port == 0:
        raise Failure(
            "The settings switch TLS off (tls_port is 0). Leave out --tls, or give the "
            "server a TLS port.",
            exit_codes.USAGE,
        )
    key = root_key(config)
    text = local_connection_string(config.host, config.port, key, tls=is_tls)
    if entity:
        text += f"EntityPath={entity};"
    authority = ca_file(config) if is_tls and not config.tls_cert else None
    return {
        "connection_string": text,
        "key_name": ROOT_KEY_NAME,
        "key": key,
        "entity_path": entity or None,
        "ca_file": None if authority is None else str(authority.absolute()),
    }
