"""Every rule refuses what it should, at the right place, and nothing else."""

import pytest

from domain.errors import Violation
from domain.manifest_shape import VARIABLES, Shape
from domain.validation import check
from tests.domain.bad_manifests import BAD, CROSS, Bad, var
from tests.domain.manifests import edge, full, lab_context, prod

ROWS = (*BAD, *CROSS)


@pytest.mark.parametrize("base", [prod, edge, full])
def test_the_good_manifests_are_good(base) -> None:
    checked = check(base(), lab_context())
    assert checked.violations == ()
    assert checked.spec is not None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_bad_manifest_is_refused_for_its_fault_alone(row: Bad) -> None:
    checked = check(row.document(), lab_context())
    assert {(one.path, one.code) for one in checked.violations} == row.places
    assert checked.spec is None
    for one in checked.violations:
        assert one.message
        assert one.remedy
        assert "\n" not in one.message


def test_names_of_rows_are_unique() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))


def _fields() -> list[str]:
    """Every field of the Variables table, as `var` takes it."""
    fields = []
    for name, (_, shape) in VARIABLES.items():
        fields += _parts(name, shape)
    return fields


def _parts(path: str, shape: object) -> list[str]:
    for inner in getattr(shape, "__args__", ()):
        if isinstance(inner, type) and issubclass(inner, Shape):
            shape = inner
            if path == "oidc":
                path = "oidc[0]"
    if not (isinstance(shape, type) and issubclass(shape, Shape)):
        return [path]
    return [
        part
        for name, field in shape.model_fields.items()
        for part in _parts(f"{path}.{field.alias or name}", field.annotation)
    ]


def test_the_table_of_fields_is_whole() -> None:
    assert len(_fields()) == 37


@pytest.mark.parametrize("field", _fields())
def test_each_field_has_two_bad_manifests(field: str) -> None:
    place = var(field)
    rows = [row for row in BAD if row.path == place or row.path.startswith(f"{place}[")]
    if field.startswith("oidc[0]."):
        place = place.replace("oidc][0]", "oidc][1]")
        rows += [row for row in BAD if row.path == place]
    assert len(rows) >= 2, f"{field}: {[row.name for row in rows]}"


def test_there_are_enough_rules_across_fields() -> None:
    assert len({row.path + row.code for row in CROSS}) >= 15


def test_all_faults_come_at_once() -> None:
    document = prod()
    for row in ("VLAN 0", "unknown variable", "2 control-plane nodes", "window at 24:00", "unknown field in spec"):
        next(one for one in BAD if one.name == row).spoil(document)
    found = {(one.path, str(one.code)) for one in check(document, lab_context()).violations}
    assert found == {
        (var("network.vlan"), "OutOfRange"),
        (var("cnii"), "UnknownVariable"),
        ("spec.topology.controlPlane.replicas", "OutOfRange"),
        (var("upgrades.window.start"), "Malformed"),
        ("spec.paused", "UnknownField"),
    }


def test_a_broken_part_hides_what_follows_from_its_absence() -> None:
    document = prod()
    next(one for one in BAD if one.name == "pod network that nobody knows").spoil(document)
    document["spec"]["topology"]["classRef"]["name"] = "trilithon-kubeadm"
    document["spec"]["topology"]["version"] = "v1.36.5"
    found = check(document, lab_context()).violations
    assert [one.code for one in found if one.path == var("cni")] == ["NotSupported"]


def test_violations_are_plain_data() -> None:
    one = check({}, lab_context()).violations[0]
    assert Violation.model_validate_json(one.model_dump_json()) == one
