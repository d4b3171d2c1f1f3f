"""Addresses: what an entry holds, what nodes can be given, and the ranges that we choose."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from netaddr import IPNetwork, IPRange, IPSet

from domain.addresses import (
    Range,
    address,
    block,
    capacity,
    choose_ranges,
    dotted,
    entry,
    expand,
    network_id,
    node_network,
    usable,
)
from domain.clusters import Distribution, NetworkSpec
from tests.domain.builders import spec


def net(*addresses: str, prefix: int = 24, gateway: str = "192.0.2.1", **changes) -> NetworkSpec:
    fields = {"bridge": "vmbr0", "dns_servers": ("192.0.2.1",)} | changes
    return NetworkSpec(addresses=addresses, prefix=prefix, gateway=gateway, **fields)


@given(st.integers(0, 2**32 - 1))
def test_addresses_are_read_and_written(number: int) -> None:
    assert address(dotted(number)) == number


@pytest.mark.parametrize(
    "text", ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.4 ", "::1", "1.2.3.٤", "0x1.2.3.4"]
)
def test_other_texts_are_no_address(text: str) -> None:
    assert address(text) is None


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("192.0.2.7", "192.0.2.7", "192.0.2.7"),
        ("192.0.2.7-192.0.2.9", "192.0.2.7", "192.0.2.9"),
        ("192.0.2.7 - 192.0.2.9", "192.0.2.7", "192.0.2.9"),
        ("192.0.2.8/30", "192.0.2.8", "192.0.2.11"),
        ("128.0.0.0/1", "128.0.0.0", "255.255.255.255"),
    ],
)
def test_entries(text: str, first: str, last: str) -> None:
    found = entry(text)
    assert found is not None
    assert (dotted(found.first), dotted(found.last)) == (first, last)


@pytest.mark.parametrize(
    "text",
    ["192.0.2.9-192.0.2.7", "192.0.2.7/30", "192.0.2.0/33", "192.0.2.0/", "192.0.2.0/+8", "-", "a-b", "192.0.2.7-9"],
)
def test_other_entries_are_refused(text: str) -> None:
    assert entry(text) is None


def test_a_block_is_a_network_and_nothing_else() -> None:
    assert block("10.42.0.0/16") is not None
    assert block("10.42.0.0") is None
    assert block("10.42.0.0-10.42.0.9") is None


def test_the_nodes_network_is_the_gateway_with_the_prefix() -> None:
    assert node_network(net(prefix=26, gateway="192.0.2.70")) == Range(address("192.0.2.64"), address("192.0.2.127"))
    assert node_network(net(prefix=0)) is None
    assert node_network(net(gateway="x")) is None


def test_addresses_come_in_the_owners_order_and_once() -> None:
    given = net("192.0.2.9", "192.0.2.7-192.0.2.10", "192.0.2.8/31")
    assert list(expand(given)) == ["192.0.2.9", "192.0.2.7", "192.0.2.8", "192.0.2.10"]
    assert capacity(given) == 4


def test_the_networks_own_and_broadcast_addresses_are_passed_over() -> None:
    assert capacity(net("192.0.2.0/24")) == 254
    assert next(expand(net("192.0.2.0/24"))) == "192.0.2.1"


def test_in_a_network_of_two_both_are_hosts() -> None:
    assert list(expand(net("192.0.2.0/31", prefix=31))) == ["192.0.2.0", "192.0.2.1"]


def test_only_what_lies_in_the_nodes_network_counts() -> None:
    assert list(expand(net("192.0.1.250-192.0.2.2", "198.51.100.9"))) == ["192.0.2.1", "192.0.2.2"]


def test_a_huge_network_is_counted_without_being_walked() -> None:
    given = net("10.0.0.0/8", prefix=8, gateway="10.0.0.1")
    assert capacity(given) == 2**24 - 2
    assert next(expand(given)) == "10.0.0.1"


parts = st.tuples(st.integers(0, 300), st.integers(0, 40))


@settings(max_examples=80, deadline=None)
@given(st.lists(parts, max_size=6))
def test_expansion_agrees_with_sets_of_addresses(drawn) -> None:
    base = address("192.0.1.200")
    texts = [f"{dotted(base + start)}-{dotted(base + start + size)}" for start, size in drawn]
    given = net(*texts)
    expected = IPSet()
    for text in texts:
        expected |= IPSet(IPRange(*text.split("-")))
    expected &= IPSet(IPRange("192.0.2.1", "192.0.2.254"))
    walked = list(expand(given))
    assert len(walked) == len(set(walked)) == capacity(given) == expected.size
    assert IPSet(walked) == expected
    assert all(part.size > 0 for part in usable(given))


def test_a_network_is_site_bridge_and_vlan() -> None:
    assert network_id("s", net()) == "s/vmbr0/0"
    assert network_id("s", net(vlan=7)) == "s/vmbr0/7"


@pytest.mark.parametrize(
    ("distribution", "pods", "services"),
    [
        (Distribution.KUBEADM, "10.244.0.0/16", "10.96.0.0/12"),
        (Distribution.RKE2, "10.42.0.0/16", "10.43.0.0/16"),
        (Distribution.K3S, "10.42.0.0/16", "10.43.0.0/16"),
    ],
)
def test_a_distributions_own_ranges_when_they_are_clear(distribution, pods, services) -> None:
    chosen = choose_ranges(spec(distribution=distribution))
    assert (chosen.pod_cidrs, chosen.service_cidrs) == ((pods,), (services,))
    assert {"pod_cidrs", "service_cidrs"} <= chosen.model_fields_set


def test_given_ranges_stay() -> None:
    given = spec(pod_cidrs=("10.1.0.0/16",), service_cidrs=("10.2.0.0/16",))
    assert choose_ranges(given) is given


def test_a_default_gives_way_to_the_nodes_network_to_dns_and_to_the_site() -> None:
    network = net("10.42.7.10-10.42.7.90", gateway="10.42.7.1")
    assert choose_ranges(spec(network=network)).pod_cidrs == ("10.244.0.0/16",)
    assert choose_ranges(spec(network=net("192.0.2.9", dns_servers=("10.43.0.10",)))).service_cidrs == (
        "10.181.0.0/16",
    )
    assert choose_ranges(spec(), avoid=("10.42.1.1", "pve.example.org")).pod_cidrs == ("10.244.0.0/16",)


def test_a_chosen_range_is_clear_of_the_given_one() -> None:
    assert choose_ranges(spec(pod_cidrs=("10.43.0.0/16",))).service_cidrs == ("10.181.0.0/16",)
    assert choose_ranges(spec(service_cidrs=("10.42.0.0/16",))).pod_cidrs == ("10.244.0.0/16",)


def test_where_nothing_is_clear_nothing_is_chosen() -> None:
    chosen = choose_ranges(spec(network=net("8.0.0.9", prefix=1, gateway="8.0.0.1")))
    assert chosen.pod_cidrs == ("172.20.0.0/16",)
    everywhere = spec(network=net("8.0.0.9", prefix=1, gateway="8.0.0.1"), service_cidrs=("128.0.0.0/1",))
    assert choose_ranges(everywhere).pod_cidrs == ()


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(list(Distribution)),
    st.sampled_from(["10.42.0.1", "10.96.3.1", "10.244.9.1", "172.16.0.1", "192.168.1.1", "100.64.0.1"]),
    st.integers(8, 30),
)
def test_chosen_ranges_are_clear_of_everything(distribution, gateway, prefix) -> None:
    chosen = choose_ranges(spec(distribution=distribution, network=net("192.0.2.9", prefix=prefix, gateway=gateway)))
    nodes = IPSet(IPNetwork(f"{gateway}/{prefix}"))
    (pods,), (services,) = chosen.pod_cidrs, chosen.service_cidrs
    assert not nodes & IPSet([pods])
    assert not nodes & IPSet([services])
    assert not IPSet([pods]) & IPSet([services])
