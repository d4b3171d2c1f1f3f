"""Versions: each distribution's own form, their order, and which upgrades there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.clusters import Distribution
from domain.versions import EXAMPLES, Version, VersionRange, newest_of_each_minor, upgrade_ok, upgrade_targets

v = Version.parse

numbers = st.integers(0, 60)
versions = st.builds(Version, st.just(Distribution.RKE2), st.just(1), numbers, numbers, st.integers(1, 12))


@pytest.mark.parametrize("distribution", list(Distribution))
def test_the_examples_are_read_and_written_back(distribution: Distribution) -> None:
    version = v(EXAMPLES[distribution])
    assert version.distribution is distribution
    assert str(version) == EXAMPLES[distribution]


@given(versions)
def test_any_version_comes_back(version: Version) -> None:
    assert v(str(version)) == version


@pytest.mark.parametrize(
    "text",
    [
        "", "1.36.5", "v1.36", "v1.36.5.1", "v01.36.5", "v1.36.05", "v1.36.5+rke2r0", "v1.36.5+rke2r01", "v1.36.5+rke2",
        "v1.36.5+k3sr1", "v1.36.5-rc1", "v1.36.5-rc1+k3s1", "V1.36.5", "v1.36.5 ", "v1.36.5\n", "v1.٣6.5",
        "v1.36.99999", "latest",
    ],
)  # fmt: skip
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes version"):
        v(text)


def test_numbers_are_compared_as_numbers_releases_included() -> None:
    texts = ["v1.9.9+rke2r1", "v1.36.5+rke2r9", "v1.36.5+rke2r10", "v1.36.10+rke2r1", "v1.37.0+rke2r1"]
    assert sorted(map(v, reversed(texts))) == list(map(v, texts))


def test_versions_of_two_distributions_have_no_order() -> None:
    with pytest.raises(TypeError):
        _ = v("v1.36.5") < v("v1.36.5+k3s1")
    assert v("v1.36.5+rke2r1") != v("v1.36.5+k3s1")


@pytest.mark.parametrize(
    ("current", "new", "expected"),
    [
        ("v1.36.5+k3s1", "v1.36.6+k3s1", True),
        ("v1.36.5+k3s1", "v1.36.5+k3s2", True),
        ("v1.36.5+k3s1", "v1.37.0+k3s1", True),
        ("v1.36.5+k3s1", "v1.36.5+k3s1", False),
        ("v1.36.5+k3s2", "v1.36.5+k3s1", False),
        ("v1.36.5+k3s1", "v1.36.4+k3s9", False),
        ("v1.36.5+k3s1", "v1.38.0+k3s1", False),
        ("v1.36.5+k3s1", "v1.35.9+k3s1", False),
        ("v1.36.5+k3s1", "v2.0.0+k3s1", False),
        ("v1.36.5+k3s1", "v2.37.0+k3s1", False),
        ("v1.36.5+k3s1", "v1.36.6+rke2r1", False),
    ],
)
def test_upgrades_go_forward_by_one_minor_at_most(current: str, new: str, expected: bool) -> None:
    assert upgrade_ok(v(current), v(new)) is expected


def test_offers_are_the_newest_of_this_minor_and_of_the_next() -> None:
    offered = map(v, ["v1.35.9", "v1.36.4", "v1.36.7", "v1.36.6", "v1.37.1", "v1.37.3", "v1.38.0"])
    assert list(map(str, upgrade_targets(v("v1.36.5"), offered))) == ["v1.36.7", "v1.37.3"]


def test_the_newest_cluster_is_offered_nothing() -> None:
    assert upgrade_targets(v("v1.36.7"), map(v, ["v1.36.7", "v1.35.9"])) == []


@given(st.lists(versions))
def test_the_newest_of_a_minor_has_nothing_above_it(offered: list[Version]) -> None:
    newest = newest_of_each_minor(offered)
    assert set(newest) == {version.branch for version in offered}
    assert all(version <= newest[version.branch] for version in offered)


def test_ranges_include_both_ends_and_may_be_open() -> None:
    bounds = VersionRange((1, 34), (1, 36))
    inside = [text for text in ("v1.33.9", "v1.34.0", "v1.36.99", "v1.37.0") if v(text) in bounds]
    assert inside == ["v1.34.0", "v1.36.99"]
    assert v("v1.99.0") in VersionRange((1, 34))
    assert v("v1.1.0") in VersionRange(last=(1, 34))
