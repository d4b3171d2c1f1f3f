"""Rules that need more than the manifest: the site, its neighbours, loopback, and the choice of a site."""

import pytest

from domain.clusters import ClusterSpec, Distribution, NetworkSpec
from domain.errors import Violation
from domain.errors import ViolationCode as Code
from domain.sites import Site, Template
from domain.validation import SiteContext, choose_site, complete, validate
from tests.domain.bad_manifests import var
from tests.domain.builders import cluster, spec


def site(name: str = "home", **changes) -> Site:
    fields = {
        "id": f"site-{name}",
        "name": name,
        "endpoints": ("https://198.51.100.1:8006",),
        "token_id": "trilithon@pve!platform",
        "workload_pool": "trilithon",
        "template_pool": "templates",
        "iso_storage": "iso",
    }
    return Site(**(fields | changes))


TEMPLATE = Template(
    id="t", site_id="site-home", distribution=Distribution.RKE2, version="v1.36.5+rke2r1", nodes={"pve1": 9001}
)


def context(*others: ClusterSpec, of: Site | None = None, visible=None, **changes) -> SiteContext:
    clusters = [
        cluster(one).model_copy(update={"id": f"id-{one.name}", "name": one.name, "site_id": "site-home"})
        for one in others
    ]
    return SiteContext.of(of or site(), [TEMPLATE], clusters, time_zones={"UTC"}, visible=visible, **changes)


def net(*addresses: str, **changes) -> NetworkSpec:
    return spec().network.model_copy(update={"addresses": addresses} | changes)


def found(wanted: ClusterSpec, where: SiteContext) -> list[Violation]:
    return validate(complete(wanted, where), where)


def places(wanted: ClusterSpec, where: SiteContext) -> set[tuple[str, Code]]:
    return {(one.path, one.code) for one in found(wanted, where)}


OTHER = spec(name="other", endpoint="192.0.2.90", network=net("192.0.2.91-192.0.2.99"))
FIRST = (var("network.addresses[0]"), Code.IN_USE)
VIP = (var("controlPlaneEndpoint"), Code.IN_USE)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (spec(), set()),
        (spec(network=net("192.0.2.80-192.0.2.91")), {FIRST}),
        (spec(network=net("192.0.2.92-192.0.2.93")), {FIRST}),
        (spec(network=net("192.0.2.86-192.0.2.90")), {FIRST}),
        (spec(network=net("192.0.2.86-192.0.2.89")), set()),
        (spec(endpoint="192.0.2.90"), {VIP}),
        (spec(endpoint="192.0.2.95"), {VIP}),
        (spec(network=net("192.0.2.91-192.0.2.92", bridge="vmbr1")), set()),
        (spec(network=net("192.0.2.91-192.0.2.92", vlan=7)), set()),
    ],
)
def test_addresses_of_other_clusters_in_the_same_network_are_refused(wanted, expected) -> None:
    assert places(wanted, context(OTHER)) == expected


def test_clusters_of_other_sites_do_not_count() -> None:
    wanted = spec(endpoint="192.0.2.90")
    elsewhere = cluster(OTHER).model_copy(update={"id": "x", "site_id": "site-away"})
    assert SiteContext.of(site(), [TEMPLATE], [elsewhere], time_zones=()).neighbours == ()
    assert places(wanted, context(OTHER)) == {VIP}


def test_the_cluster_itself_is_no_neighbour() -> None:
    assert context(OTHER, own="id-other").neighbours == ()


def test_a_neighbour_is_named_only_to_those_who_may_see_it() -> None:
    wanted = spec(network=net("192.0.2.60-192.0.2.92"))
    (seen,) = found(wanted, context(OTHER, visible={"id-other"}))
    (unseen,) = found(wanted, context(OTHER, visible=set()))
    assert "cluster clusters/other" in seen.message
    assert "other/" not in unseen.message
    assert unseen.message.startswith("192.0.2.91-192.0.2.92 belongs to another cluster")
    assert "192.0.2.99" not in unseen.message


def test_loopback_addresses_only_where_the_site_itself_is_on_loopback() -> None:
    network = NetworkSpec(
        bridge="vmbr0",
        addresses=("127.80.1.51-127.80.1.69",),
        prefix=16,
        gateway="127.80.0.1",
        dns_servers=("127.80.0.1",),
    )
    wanted = spec(endpoint="127.80.1.50", network=network)
    assert places(wanted, context()) == {
        (var(place), Code.NOT_ALLOWED)
        for place in ("controlPlaneEndpoint", "network.gateway", "network.addresses[0]", "network.dnsServers[0]")
    }
    for endpoint in ("https://127.0.70.1:8006", "https://localhost:8006", "https://[::1]:8006"):
        assert places(wanted, context(of=site(endpoints=(endpoint,)))) == set()


def test_a_pod_range_on_loopback_is_refused() -> None:
    wanted = spec(pod_cidrs=("127.1.0.0/16",))
    assert places(wanted, context()) == {("spec.clusterNetwork.pods.cidrBlocks[0]", Code.NOT_ALLOWED)}


def test_a_range_over_the_sites_endpoint_is_refused() -> None:
    wanted = spec(pod_cidrs=("198.51.0.0/16",))
    (one,) = found(wanted, context())
    assert (one.path, one.code) == ("spec.clusterNetwork.pods.cidrBlocks[0]", Code.OVERLAPS)
    assert "198.51.100.1" in one.message


def test_where_no_range_is_clear_both_must_be_given() -> None:
    network = NetworkSpec(
        bridge="vmbr0", addresses=("8.0.0.9-8.0.0.20",), prefix=1, gateway="8.0.0.1", dns_servers=("8.0.0.1",)
    )
    wanted = spec(endpoint="8.0.0.50", network=network, service_cidrs=("192.168.0.0/16",))
    blocked = context(of=site(endpoints=("https://172.20.0.1:8006",)))
    assert places(wanted, blocked) == {("spec.clusterNetwork.pods.cidrBlocks", Code.OVERLAPS)}


@pytest.mark.parametrize(("bridges", "storages"), [((), ()), (("vmbr0",), ("shared",))])
def test_a_site_that_names_none_takes_any_bridge_and_storage(bridges, storages) -> None:
    assert places(spec(), context(of=site(bridges=bridges, storages=storages))) == set()


def test_allowed_nodes_are_nodes_of_the_site_where_those_are_known() -> None:
    wanted = spec(allowed_nodes=("pve1", "pve9"))
    assert places(wanted, context()) == set()
    assert places(wanted, context(nodes={"pve1"})) == {(var("allowedNodes[1]"), Code.NOT_ALLOWED)}


def test_templates_of_other_sites_do_not_count() -> None:
    (one,) = found(spec(), context(of=site("away")))
    assert (one.path, one.code) == ("spec.topology.classRef.name", Code.NOT_AVAILABLE)


def test_the_only_site_needs_no_name() -> None:
    assert choose_site(spec(), [site()]) == site()
    assert choose_site(spec(site="home"), [site("away"), site()]) == site()


@pytest.mark.parametrize(
    ("wanted", "sites", "code"),
    [
        (spec(), [], Code.NOT_AVAILABLE),
        (spec(), [site(), site("away")], Code.REQUIRED),
        (spec(site="moon"), [site()], Code.NOT_ALLOWED),
        (spec(site="moon"), [], Code.NOT_ALLOWED),
    ],
)
def test_a_site_that_is_not_clear_is_refused(wanted, sites, code) -> None:
    answer = choose_site(wanted, sites)
    assert isinstance(answer, Violation)
    assert (answer.path, answer.code) == ("metadata.annotations[trilithon.dev/site]", code)
    assert all(one.name in answer.remedy for one in sites)
