"""Sanitizers of recordings: nothing is recorded, so there is nothing to clean."""


def _nothing(*args: object, **kwargs: object) -> None:
    pass


add_remove_header_sanitizer = _nothing
add_general_regex_sanitizer = _nothing
add_oauth_response_sanitizer = _nothing
set_custom_default_matcher = _nothing
