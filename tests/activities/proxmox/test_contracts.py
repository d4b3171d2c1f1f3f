"""Every activity of the contract exists, and says what it does in the four lines."""

import inspect
from typing import Any

import pytest

from activities.proxmox import ProxmoxActivities
from domain.contracts import activities as names

WANTED = {
    value for name, value in vars(names).items() if name.isupper() and isinstance(value, str) and "proxmox." in value
}
FOUND: dict[str, Any] = {
    method.__temporal_activity_definition.name: method
    for _, method in inspect.getmembers(ProxmoxActivities, inspect.isfunction)
    if hasattr(method, "__temporal_activity_definition")
}


def test_all_activities_of_the_contract_are_there() -> None:
    assert set(FOUND) == WANTED


@pytest.mark.parametrize("name", sorted(FOUND))
def test_each_tells_effect_key_done_and_final(name: str) -> None:
    lines = [line.strip() for line in (FOUND[name].__doc__ or "").splitlines()]
    for word in ("Effect:", "Key:", "Done-when:", "Final:"):
        assert any(line.startswith(word) for line in lines), word


def test_types_cross_the_temporal_server() -> None:
    for method in FOUND.values():
        definition = method.__temporal_activity_definition
        assert definition.arg_types is not None
        assert len(definition.arg_types) == 1
        assert definition.ret_type is not None or definition.name == names.WATCH_SITE
