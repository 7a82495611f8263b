"""Stands in for azure-mgmt-resource: resource groups mean nothing here."""

from types import SimpleNamespace


class _Groups:
    def create_or_update(self, name: str, parameters: object) -> SimpleNamespace:
        return SimpleNamespace(name=name, id=name)

    def begin_delete(self, name: str, **kwargs: object) -> SimpleNamespace:
        return SimpleNamespace(
            result=lambda: None, wait=lambda timeout=None: None, done=lambda: True
        )


class ResourceManagementClient:
    """Resource groups that are only names."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.resource_groups = _Groups()
