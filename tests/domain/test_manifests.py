"""Manifests come back as they were given, and nothing that anybody sends is an exception."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.clusters import ClusterSpec, Cni, Distribution, UpgradeMode
from domain.errors import Violation, ViolationCode
from domain.manifest_shape import VARIABLES, Cnis, Modes
from domain.manifests import SITE_ANNOTATION, read_manifest, write_manifest
from domain.validation import check
from tests.domain.manifests import edge, full, lab_context, prod, variable


def read(document: object) -> ClusterSpec:
    spec = read_manifest(document)
    assert isinstance(spec, ClusterSpec), spec
    return spec


@pytest.mark.parametrize("base", [prod, full])
def test_a_manifest_comes_back_as_it_was_given(base) -> None:
    assert write_manifest(read(base())) == base()


def test_only_the_class_is_written_in_full() -> None:
    document = edge()
    document["spec"]["topology"]["classRef"]["namespace"] = "trilithon-system"
    assert write_manifest(read(edge())) == document


def test_every_field_arrives() -> None:
    spec = read(full())
    assert spec.site == "lab"
    assert spec.annotations == {"example.org/note": "kept as it is"}
    assert spec.network.vlan == 120
    assert spec.allowed_nodes == ("pve1", "pve2")
    assert spec.proxmox_ha is False
    assert (spec.control_plane_machine.cores, spec.control_plane_machine.disk_gib) == (4, 50)
    assert (spec.worker_machine.cores, spec.worker_machine.memory_mib, spec.worker_machine.disk_gib) == (8, 4096, 40)
    assert spec.kube_proxy_replacement is True
    assert spec.headlamp.tls_secret == "web"
    assert spec.rancher.install
    assert spec.rancher.registers
    assert spec.oidc is not None
    assert spec.oidc[0].username_claim == "sub"
    assert spec.upgrades.mode is UpgradeMode.PATCH
    assert spec.upgrades.window is not None
    assert spec.upgrades.window.weekdays == ("Sat",)
    assert [pool.name for pool in spec.pools] == ["md-0", "big"]
    assert spec.pools[1].replicas == 1


def test_what_is_left_out_stays_unset_and_has_its_default() -> None:
    spec = read(edge())
    assert spec.model_fields_set == {"name", "distribution", "version", "endpoint", "network", "storage"}
    assert (spec.namespace, spec.control_planes, spec.workers, spec.cni) == ("clusters", 1, 0, None)


@pytest.mark.parametrize("name", list(Distribution))
def test_the_reference_documents_classes_are_ours(name: Distribution) -> None:
    document = prod()
    document["spec"]["topology"]["classRef"] = {"name": f"kubehenge-{name}", "namespace": "kubehenge-system"}
    assert read(document).distribution is name
    assert write_manifest(read(document))["spec"]["topology"]["classRef"] == {
        "name": f"trilithon-{name}",
        "namespace": "trilithon-system",
    }


def test_the_site_is_an_annotation_and_no_annotation_of_the_owners() -> None:
    document = edge()
    document["metadata"]["annotations"] = {SITE_ANNOTATION: "lab"}
    spec = read(document)
    assert (spec.site, "annotations" in spec.model_fields_set) == ("lab", False)
    assert write_manifest(spec)["metadata"] == document["metadata"]


def test_what_a_server_adds_is_taken_and_dropped() -> None:
    document = prod()
    document["metadata"] |= {"uid": "u", "resourceVersion": "7", "generation": 2, "managedFields": [{}]}
    document["status"] = {"phase": "Provisioned"}
    assert read(document) == read(prod())


def test_null_is_left_out() -> None:
    document = prod()
    document["metadata"]["labels"] = None
    variable(document, "network")["value"]["vlan"] = None
    variable(document, "cni")["value"] = None
    spec = read(document)
    assert spec.cni is None
    assert "cni" not in spec.model_fields_set
    assert "vlan" not in spec.network.model_fields_set
    assert "labels" not in spec.model_fields_set


def test_a_missing_part_is_said_once() -> None:
    document = prod()
    variable(document, "network")["value"]["bridge"] = None
    assert read_manifest(document) == [
        Violation(
            path="spec.topology.variables[network].bridge",
            code=ViolationCode.REQUIRED,
            message="spec.topology.variables[network].bridge is missing",
            remedy="add it",
        )
    ]


def test_a_broken_frame_does_not_hide_broken_variables() -> None:
    document = prod()
    del document["metadata"]["name"]
    variable(document, "network")["value"]["prefix"] = "16"
    found = read_manifest(document)
    assert isinstance(found, list)
    assert [one.path for one in found] == ["metadata.name", "spec.topology.variables[network].prefix"]


def test_text_that_yaml_read_as_a_number_is_told_to_be_quoted() -> None:
    document = prod()
    variable(document, "upgrades")["value"]["window"]["start"] = 120
    found = read_manifest(document)
    assert isinstance(found, list)
    assert "in quotes" in found[0].remedy


def test_the_shape_offers_what_the_domain_knows() -> None:
    assert set(Cnis.__args__) == set(Cni)
    assert set(Modes.__args__) == set(UpgradeMode)
    assert {field for field, _ in VARIABLES.values()} <= set(ClusterSpec.model_fields)


# --- anything at all ---

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([10**30, "\ud800", b"bytes", "127.80.1.50", "system:", "٣.1.1.1", "https://[::1"])
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6) | st.integers(), inner, max_size=3),
    max_leaves=8,
)


def _places(part: object, path: tuple = ()) -> list[tuple]:
    found = [path] if path else []
    if isinstance(part, dict):
        for key, value in part.items():
            found += _places(value, (*path, key))
    if isinstance(part, list):
        for index, value in enumerate(part):
            found += _places(value, (*path, index))
    return found


PLACES = _places(full())


@settings(max_examples=150, deadline=None)
@given(anything)
def test_no_document_raises(document: object) -> None:
    found = read_manifest(document)
    assert isinstance(found, list)
    assert found


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(PLACES), anything), min_size=1, max_size=3), st.sampled_from(["", "n", "bridge"])
)
def test_no_spoiled_manifest_raises(changes, extra) -> None:
    document = full()
    for place, value in changes:
        part = document
        for key in place[:-1]:
            try:
                part = part[key]
            except (TypeError, KeyError, IndexError):
                part = None
                break
        if isinstance(part, dict):
            part[place[-1]] = value
            if extra:
                part[extra] = value
        elif isinstance(part, list) and isinstance(place[-1], int) and place[-1] < len(part):
            part[place[-1]] = value
    checked = check(document, lab_context())
    assert (checked.spec is None) is bool(checked.violations)
    for one in checked.violations:
        assert one.remedy
        assert len(one.message) < 400
        json.loads(one.model_dump_json())


@pytest.mark.parametrize("index", range(len(PLACES)))
def test_no_number_too_long_to_print_raises(index: int) -> None:
    document = full()
    part = document
    for key in PLACES[index][:-1]:
        part = part[key]
    part[PLACES[index][-1]] = 10**5000
    checked = check(document, lab_context())
    assert checked.spec is None
    assert all(len(one.message) < 400 for one in checked.violations)


def test_a_document_that_holds_itself_raises_nothing() -> None:
    document = prod()
    document["spec"]["topology"]["variables"] = document["spec"]["topology"]
    document["metadata"]["labels"] = document
    assert isinstance(read_manifest(document), list)


optional = st.none() | st.text("abc", min_size=1, max_size=3)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_choice_of_fields_comes_back(data) -> None:
    document = full()
    drawn = data.draw(st.sets(st.sampled_from(sorted(set(VARIABLES) - {"controlPlaneEndpoint", "network", "storage"}))))
    variables = document["spec"]["topology"]["variables"]
    variables[:] = [one for one in variables if one["name"] not in drawn]
    for one in variables:
        if isinstance(one["value"], dict) and one["name"] != "network":
            keys = data.draw(st.sets(st.sampled_from(sorted(one["value"]))))
            one["value"] = {key: value for key, value in one["value"].items() if key not in keys}
    for place in data.draw(st.sets(st.sampled_from(["labels", "annotations", "namespace"]))):
        del document["metadata"][place]
    for place in data.draw(st.sets(st.sampled_from(["controlPlane", "workers"]))):
        del document["spec"]["topology"][place]
    if data.draw(st.booleans()):
        del document["spec"]["clusterNetwork"]
    assert write_manifest(read(document)) == document
    assert read(write_manifest(read(document))) == read(document)
