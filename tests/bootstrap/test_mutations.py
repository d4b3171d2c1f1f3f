"""The table of mutations is complete, and each of its rows changes what it says."""

from functools import lru_cache

import pytest

from bootstrap import BootData, boot_data
from domain.clusters import Cni, Distribution
from tests.bootstrap.changes import keys
from tests.bootstrap.examples import BUILT, ROLES, example_input
from tests.bootstrap.mutations import KUBEADM_MUTATIONS, MUTATIONS, Mutation

CASES = {"": None, "cilium": Cni.CILIUM, "calico": Cni.CALICO}


@lru_cache
def good(distribution: Distribution, machine: str, case: str, in_template: bool = True) -> BootData:
    """Boot data of a good cluster, as a row of the table starts from."""
    cni = CASES[case]
    replaces = cni is Cni.CILIUM
    return boot_data(
        example_input(machine, distribution, cni=cni, kube_proxy_replacement=replaces, has_programs=in_template)
    )


ALL = (*MUTATIONS, *KUBEADM_MUTATIONS)
ROWS = [(mutation, distribution) for mutation in ALL for distribution in mutation.distributions]


@pytest.mark.parametrize(
    ("mutation", "distribution"),
    ROWS,
    ids=[f"{distribution.value}: {mutation.name}" for mutation, distribution in ROWS],
)
def test_a_mutation_changes_the_boot_data(mutation: Mutation, distribution: Distribution) -> None:
    data = good(distribution, mutation.machine, mutation.case, mutation.in_template)
    changed = mutation.change(data)
    assert changed != data
    assert mutation.change(data) == changed
    assert mutation.source
    assert mutation.why
    assert mutation.joins or not mutation.breaks


def test_rows_are_told_apart_by_name() -> None:
    names = [f"{mutation.case} {mutation.in_template} {mutation.name}" for mutation in ALL]
    assert len(names) == len(set(names))


def test_the_table_knows_both_ends() -> None:
    assert sum(not mutation.joins for mutation in MUTATIONS) >= 25
    for distribution in BUILT:
        for machine in ROLES:
            rows = [row for row in ALL if distribution in row.distributions and row.machine == machine]
            assert {row.joins for row in rows} == {True, False}


@pytest.mark.parametrize("distribution", BUILT)
def test_every_key_of_every_file_is_in_the_table(distribution: Distribution) -> None:
    rows = [(row.file, row.key) for row in ALL if distribution in row.distributions]
    missing = set()
    for case in CASES:
        for machine in ROLES:
            for path, key in keys(good(distribution, machine, case)):
                if not any(f"/{path}".endswith(f"/{file}") and key == listed for file, listed in rows):
                    missing.add(f"{path} {key}")
    assert sorted(missing) == []
