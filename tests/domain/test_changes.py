"""What may change in a living cluster, and what may not."""

import pytest

from domain.addresses import choose_ranges
from domain.clusters import (
    Cni,
    ControlPlaneSize,
    Distribution,
    Headlamp,
    MaintenanceWindow,
    Upgrades,
    WorkerPool,
    WorkerSize,
)
from domain.errors import ViolationCode as Code
from domain.validation import SiteContext, check, validate_change
from tests.domain.bad_manifests import PODS, SERVICES, at, put, var
from tests.domain.builders import spec
from tests.domain.manifests import edge, lab_context, prod

CONTEXT = SiteContext(
    site_id="site-1",
    site_name="home",
    bridges=("vmbr0",),
    storages=("shared",),
    templates=frozenset(
        (Distribution.RKE2, f"v1.{minor}.{patch}+rke2r1") for minor in (35, 36, 37, 38) for patch in (5, 6)
    ),
    endpoints=("198.51.100.1",),
)
OLD = choose_ranges(spec(3, (2,), worker_machine=WorkerSize(disk_gib=40)))


def changed(**changes) -> set[tuple[str, Code]]:
    return {(one.path, one.code) for one in validate_change(OLD, OLD.model_copy(update=changes), CONTEXT)}


def network(**changes):
    return OLD.network.model_copy(update=changes)


def test_no_change_is_no_violation() -> None:
    assert changed() == set()


@pytest.mark.parametrize(
    "changes",
    [
        {"control_planes": 5},
        {"pools": (WorkerPool(name="md-0", replicas=0),)},
        {"pools": (WorkerPool(name="md-0", replicas=2), WorkerPool(name="big", replicas=3))},
        {"version": "v1.36.6+rke2r1"},
        {"version": "v1.37.5+rke2r1"},
        {"worker_machine": WorkerSize(cores=4, memory_mib=8192, disk_gib=41)},
        {"control_plane_machine": ControlPlaneSize(memory_mib=3072)},
        {"proxmox_ha": False},
        {"allowed_nodes": ("pve1",)},
        {"headlamp": Headlamp(enabled=True)},
        {"upgrades": Upgrades(window=MaintenanceWindow())},
        {"oidc": ()},
        {"labels": {"a": "b"}},
        {"cni": Cni.CANAL},
        {"network": network(addresses=("192.0.2.51-192.0.2.99",))},
        {"network": network(dns_servers=("192.0.2.2",))},
        {"site": "home"},
        {"pod_cidrs": (), "service_cidrs": ()},
    ],
)
def test_what_may_change(changes) -> None:
    assert changed(**changes) == set()


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"name": "prod2"}, "metadata.name"),
        ({"namespace": "other"}, "metadata.namespace"),
        ({"site": "away"}, "metadata.annotations[trilithon.dev/site]"),
        ({"endpoint": "192.0.2.49"}, var("controlPlaneEndpoint")),
        ({"network": network(vlan=7)}, var("network.vlan")),
        ({"network": network(prefix=25)}, var("network.prefix")),
        ({"network": network(gateway="192.0.2.2")}, var("network.gateway")),
        ({"cni": Cni.CILIUM}, var("cni")),
        ({"pod_cidrs": ("10.99.0.0/16",)}, "spec.clusterNetwork.pods.cidrBlocks"),
        ({"service_cidrs": ("10.99.0.0/16",)}, "spec.clusterNetwork.services.cidrBlocks"),
    ],
)
def test_what_is_fixed_for_the_clusters_life(changes, path) -> None:
    assert changed(**changes) == {(path, Code.IMMUTABLE)}


def test_another_bridge_or_storage_is_fixed_even_where_the_site_offers_it() -> None:
    context = CONTEXT.model_copy(update={"bridges": (), "storages": ()})
    new = OLD.model_copy(update={"network": network(bridge="vmbr1"), "storage": "fast"})
    found = {(one.path, one.code) for one in validate_change(OLD, new, context)}
    assert found == {(var("network.bridge"), Code.IMMUTABLE), (var("storage"), Code.IMMUTABLE)}


def test_another_distribution_is_another_cluster() -> None:
    new = OLD.model_copy(update={"distribution": Distribution.K3S, "version": "v1.36.5+k3s1"})
    assert ("spec.topology.classRef.name", Code.IMMUTABLE) in {
        (one.path, one.code) for one in validate_change(OLD, new, CONTEXT)
    }


def test_kube_proxy_replacement_is_fixed() -> None:
    old = OLD.model_copy(update={"cni": Cni.CILIUM})
    new = old.model_copy(update={"kube_proxy_replacement": True})
    assert [(one.path, one.code) for one in validate_change(old, new, CONTEXT)] == [
        (var("kubeProxyReplacement"), Code.IMMUTABLE)
    ]


@pytest.mark.parametrize("version", ["v1.35.5+rke2r1", "v1.38.5+rke2r1"])
def test_no_way_back_and_no_jump(version: str) -> None:
    assert changed(version=version) == {("spec.topology.version", Code.OUT_OF_RANGE)}


@pytest.mark.parametrize("field", ["worker_machine", "control_plane_machine"])
def test_a_disk_only_grows(field: str) -> None:
    smaller = getattr(OLD, field).model_copy(update={"disk_gib": 29})
    name = {"worker_machine": "workerMachine", "control_plane_machine": "controlPlaneMachine"}[field]
    assert changed(**{field: smaller}) == {(var(f"{name}.diskGiB"), Code.OUT_OF_RANGE)}


def test_addresses_that_machines_have_stay_theirs() -> None:
    context = CONTEXT.model_copy(update={"own_addresses": frozenset({"192.0.2.51", "192.0.2.60"})})
    new = OLD.model_copy(update={"network": network(addresses=("192.0.2.55-192.0.2.69",))})
    (found,) = validate_change(OLD, new, context)
    assert (found.path, found.code) == (var("network.addresses"), Code.IN_USE)
    assert "192.0.2.51" in found.message
    assert "192.0.2.60" not in found.message


def test_a_change_obeys_the_rules_of_a_new_cluster() -> None:
    assert changed(control_planes=2) == {("spec.topology.controlPlane.replicas", Code.OUT_OF_RANGE)}


def test_a_running_cluster_keeps_what_the_site_no_longer_offers() -> None:
    context = CONTEXT.model_copy(
        update={
            "bridges": ("vmbr9",),
            "storages": ("other",),
            "templates": frozenset(),
            "nodes": frozenset({"pve1"}),
        }
    )
    old = OLD.model_copy(update={"allowed_nodes": ("pve1", "hidden")})
    assert validate_change(old, old.model_copy(update={"labels": {"a": "b"}}), context) == []
    asked = old.model_copy(update={"allowed_nodes": ("hidden", "pve1", "ghost"), "control_planes": 5})
    assert {(one.path, one.code) for one in validate_change(old, asked, context)} == {
        (var("allowedNodes[2]"), Code.NOT_ALLOWED),
        ("spec.topology.classRef.name", Code.NOT_AVAILABLE),
    }


def test_the_document_itself_can_be_applied_again() -> None:
    for base in (prod, edge):
        old = check(base(), lab_context()).spec
        assert old is not None
        again = check(base(), lab_context(), old)
        assert again.violations == ()
        assert again.spec is not None
        assert (again.spec.pod_cidrs, again.spec.service_cidrs) == (old.pod_cidrs, old.service_cidrs)


def test_ranges_chosen_once_do_not_move_with_later_choices() -> None:
    old = check(edge(), lab_context()).spec
    assert old is not None
    moved = old.model_copy(update={"pod_cidrs": ("10.180.0.0/16",)})
    again = check(edge(), lab_context(), moved)
    assert again.spec is not None
    assert again.spec.pod_cidrs == ("10.180.0.0/16",)


@pytest.mark.parametrize("place", [PODS, SERVICES])
def test_a_manifest_that_asks_for_other_ranges_is_refused(place: str) -> None:
    old = check(prod(), lab_context()).spec
    document = prod()
    at(place, ["10.99.0.0/16"])(document)
    assert [one.path for one in check(document, lab_context(), old).violations] == [place]


def test_a_manifest_that_drops_the_cni_asks_for_another() -> None:
    old = check(prod(), lab_context()).spec
    document = prod()
    put("cni", None)(document)
    assert [one.path for one in check(document, lab_context(), old).violations] == [var("cni")]
