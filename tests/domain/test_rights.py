"""Rights: what is held where, and which privilege each action needs."""

import pytest

from domain.rights import Action, Missing, Places, held, may, needs
from tests.domain.builders import spec

POOL = "/pool/trilithon/clusters.prod"
PLACES = Places.of(spec(), "trilithon", exists=True)
NEW = Places.of(spec(), "trilithon", exists=False)


@pytest.mark.parametrize(
    ("permissions", "path", "expected"),
    [
        ({"/pool/a/b": {"VM.Audit": 0}}, "/pool/a/b", {"VM.Audit"}),
        ({"/pool/a": {"VM.Audit": 1}}, "/pool/a/b", {"VM.Audit"}),
        ({"/pool/a": {"VM.Audit": 0}}, "/pool/a/b", set()),
        ({"/": {"VM.Audit": 1, "Sys.Audit": 0}}, "/pool/a/b", {"VM.Audit"}),
        ({"/": {"VM.Audit": 1}, "/pool/a": {"VM.Allocate": 1}}, "/pool/a/b", {"VM.Allocate"}),
        ({"/": {"VM.Audit": 1}, "/pool/a": {"VM.Allocate": 0}}, "/pool/a/b", set()),
        ({"/": {"VM.Audit": 1}, "/pool/a/b": {}}, "/pool/a/b", set()),
        ({"/pool/a": {"VM.Audit": 1}}, "/pool/ab", set()),
        ({"/pool/a/b/c": {"VM.Audit": 1}}, "/pool/a/b", set()),
        ({"/": {"Sys.Audit": 0}}, "/", {"Sys.Audit"}),
        ({}, "/pool/a", set()),
    ],
)
def test_the_nearest_listed_path_answers(permissions, path, expected) -> None:
    assert held(permissions, path) == expected


@pytest.mark.parametrize(
    ("action", "places", "expected"),
    [
        (Action.SEE, PLACES, [("VM.Audit", POOL)]),
        (Action.CHANGE, PLACES, [("VM.Allocate", POOL)]),
        (Action.DELETE, PLACES, [("VM.Allocate", POOL)]),
        (Action.KUBECONFIG, PLACES, [("Sys.Modify", POOL)]),
        (Action.TRUST_PROVIDER, PLACES, [("Sys.Modify", POOL)]),
        (Action.TRUST_PROVIDER, NEW, [("Sys.Modify", "/pool/trilithon")]),
        (Action.INSTALL_RANCHER, PLACES, [("Sys.Modify", "/pool/trilithon")]),
        (Action.PLACE_BY_HA_RULE, NEW, [("Sys.Audit", "/")]),
        (Action.SET_UP, NEW, [("Sys.Modify", "/"), ("Permissions.Modify", "/")]),
        (
            Action.CREATE,
            NEW,
            [
                ("VM.Allocate", "/pool/trilithon"),
                ("Datastore.AllocateSpace", "/storage/shared"),
                ("SDN.Use", "/sdn/zones/localnetwork/vmbr0"),
            ],
        ),
    ],
)
def test_what_each_action_needs(action, places, expected) -> None:
    assert needs(action, places) == expected
    everything = {path: {privilege: 0 for privilege, at in expected if at == path} for _, path in expected}
    assert may(action, everything, places) is None
    for privilege, path in expected:
        short = {at: {one: 1 for one in ones if (one, at) != (privilege, path)} for at, ones in everything.items()}
        assert may(action, short, places) == Missing(privilege=privilege, path=path)


def test_every_action_is_in_the_table() -> None:
    assert {action for action in Action if needs(action, PLACES)} == set(Action)


def test_a_vlan_asks_on_the_vlan() -> None:
    network = spec().network.model_copy(update={"vlan": 120})
    places = Places.of(spec(network=network), "trilithon", exists=False)
    assert needs(Action.CREATE, places)[2] == ("SDN.Use", "/sdn/zones/localnetwork/vmbr0/120")


@pytest.mark.parametrize("action", [Action.SEE, Action.CHANGE, Action.DELETE, Action.KUBECONFIG])
def test_no_pool_is_no_right(action) -> None:
    with pytest.raises(ValueError, match="own pool"):
        may(action, {"/": {"VM.Audit": 1, "VM.Allocate": 1, "Sys.Modify": 1}}, NEW)


def test_the_message_names_privilege_and_path() -> None:
    missing = may(Action.KUBECONFIG, {POOL: {"VM.Audit": 1}}, PLACES)
    assert missing is not None
    assert missing.message == f"this needs Sys.Modify on {POOL}"
