"""Placement: online, allowed, fitting nodes only; fewest of the kind, then more memory, then the name."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.clusters import Distribution
from domain.machines import Phase, Role
from domain.placement import NodeFacts, Placement, Refusals, place
from domain.sites import Template
from tests.domain.builders import machine

SHARED = Template(
    id="t", site_id="s", distribution=Distribution.RKE2, version="v1.36.5+rke2r1", nodes={"pve2": 9001}, shared=True
)
LOCAL = SHARED.model_copy(update={"nodes": {"pve1": 9011, "pve3": 9013}, "shared": False})


def node(name: str, free: int | None = 16384, **changes) -> NodeFacts:
    fields = {"online": True, "storages": frozenset({"shared"}), "bridges": frozenset({"vmbr0"})} | changes
    return NodeFacts(name=name, memory_free_mib=free, **fields)


def put(others=(), nodes=(), template=SHARED, one=None, **changes) -> Placement | Refusals:
    fields = {"storage": "shared", "bridge": "vmbr0"} | changes
    return place(one or machine("new"), list(others), list(nodes), template, **fields)


def chosen(*args, **kwargs) -> str:
    answer = put(*args, **kwargs)
    assert isinstance(answer, Placement), answer
    return answer.node


def refused(*args, **kwargs) -> dict[str, str]:
    answer = put(*args, **kwargs)
    assert isinstance(answer, Refusals), answer
    return answer.reasons


def other(name: str, where: str, **changes):
    return machine(name, **({"node": where, "phase": Phase.READY, "vmid": 30000} | changes))


def test_the_node_with_fewest_of_the_kind_wins_over_memory() -> None:
    nodes = [node("pve1", 99999), node("pve2", 8192)]
    assert chosen([other("a", "pve1")], nodes) == "pve2"


@pytest.mark.parametrize("changes", [{"cluster_id": "another"}, {"role": Role.WORKER, "pool": "md-0"}])
def test_others_of_another_cluster_or_role_do_not_count(changes) -> None:
    nodes = [node("pve1", 99999), node("pve2", 8192)]
    assert chosen([other("a", "pve1", **changes)], nodes) == "pve1"


def test_ties_go_to_more_free_memory_then_to_the_name() -> None:
    assert chosen([], [node("pve1", 8192), node("pve2", 8200)]) == "pve2"
    assert chosen([], [node("pve2", 8192), node("pve1", 8192)]) == "pve1"


def test_three_servers_on_three_nodes_run_one_to_a_node() -> None:
    nodes = [node("pve1", 50000), node("pve2", 40000), node("pve3", 30000)]
    placed = []
    for i in range(3):
        one = machine(f"m{i}", vmid=20000 + i)
        placed.append(one.model_copy(update={"node": chosen(placed, nodes, one=one), "phase": Phase.PLACED}))
    assert sorted(one.node for one in placed) == ["pve1", "pve2", "pve3"]


def test_reserved_memory_counts_until_the_machine_runs() -> None:
    nodes = [node("pve1", 8192)]
    waiting = [other("a", "pve1", phase=Phase.SEEDED, memory_mib=4097, cluster_id="x")]
    assert "needs 4096 MiB of memory, 4095 MiB free (4097 MiB reserved by us)" in refused(waiting, nodes)["pve1"]
    running = [other("a", "pve1", phase=Phase.STARTED, memory_mib=4097, cluster_id="x")]
    assert chosen(running, nodes) == "pve1"


def test_leaving_machines_and_itself_count_nothing() -> None:
    nodes = [node("pve1", 4096), node("pve2", 4096)]
    leaving = [other("a", "pve1", phase=Phase.DELETING, memory_mib=9999)]
    assert chosen(leaving, nodes) == "pve1"
    itself = machine("new", node="pve1", phase=Phase.PLACED)
    assert chosen([itself], nodes, one=itself) == "pve1"


def test_a_moved_machine_counts_where_it_is() -> None:
    nodes = [node("pve1"), node("pve2")]
    moved = other("a", "pve1", vmid=555)
    assert chosen([moved], nodes) == "pve2"
    assert chosen([moved], nodes, seen_on={555: "pve2"}) == "pve1"


def test_a_foreign_vm_under_the_id_of_an_unplaced_machine_counts_nothing() -> None:
    unplaced = machine("a", vmid=555)
    assert chosen([unplaced], [node("pve1", 9000), node("pve2", 8000)], seen_on={555: "pve1"}) == "pve1"


def test_each_reason_is_named() -> None:
    nodes = [
        node("a", online=False),
        node("b", storages=frozenset()),
        node("c", bridges=frozenset({"vmbr1"})),
        node("d", None),
        node("e", 4095),
    ]
    reasons = refused([], nodes, allowed=["a", "b", "c", "d", "e", "ghost"])
    assert reasons == {
        "a": "offline",
        "b": "storage shared is not active here",
        "c": "has no bridge vmbr0",
        "d": "its free memory is not known",
        "e": "needs 4096 MiB of memory, 4095 MiB free (0 MiB reserved by us)",
        "ghost": "not a node of this datacenter",
    }
    message = put([], nodes[:1]).message
    assert message == "no node fits: a: offline"


def test_exactly_enough_memory_is_enough() -> None:
    assert chosen([], [node("pve1", 4096)]) == "pve1"


def test_while_all_allowed_nodes_are_down_nothing_goes_elsewhere() -> None:
    reasons = refused([], [node("pve1", online=False), node("pve2")], allowed=["pve1"])
    assert reasons == {"pve1": "offline"}


def test_a_shared_template_is_cloned_from_anywhere() -> None:
    assert put([], [node("pve3")]) == Placement(node="pve3", template_vmid=9001)


def test_a_local_template_only_where_it_stands() -> None:
    assert put([], [node("pve2", 99999), node("pve3")], LOCAL) == Placement(node="pve3", template_vmid=9013)
    assert "no template" in refused([], [node("pve2")], LOCAL)["pve2"]


def test_without_any_node_the_reason_says_so() -> None:
    answer = put()
    assert isinstance(answer, Refusals)
    assert answer.message == "no node of the datacenter is known"


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.integers(0, 9000)), unique_by=lambda t: t[0]),
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([*Phase])), max_size=6),
)
def test_a_chosen_node_is_online_and_has_the_memory(facts, others) -> None:
    nodes = [node(name, free, online=online) for name, online, free in facts]
    taken = [other(f"o{i}", where, phase=phase, vmid=i) for i, (where, phase) in enumerate(others)]
    answer = put(taken, nodes)
    promised = {
        name: sum(one.memory_mib for one in taken if one.node == name and not one.phase.reached(Phase.STARTED))
        for name in "abcd"
    }
    fitting = {name for name, online, free in facts if online and free - promised[name] >= 4096}
    if isinstance(answer, Placement):
        assert answer.node in fitting
        kinds = {name: sum(1 for one in taken if one.node == name and not one.leaving) for name in fitting}
        assert kinds[answer.node] == min(kinds.values())
    else:
        assert not fitting
        assert set(answer.reasons) == {name for name, _, _ in facts}
