"""Drafts: every wanted machine once, with identities of its own, and one initialiser ever."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.clusters import ControlPlaneSize, WorkerPool, WorkerSize
from domain.machines import MAX_NAME, Phase, Role, drafts, identities, short_of
from domain.rules.forms import is_label
from tests.domain.builders import machine, machines, spec

shapes = st.tuples(st.sampled_from([1, 3, 5, 7]), st.lists(st.integers(0, 5), max_size=3).map(tuple))


def numbers():
    """Ids as a store's random source would give them, but tellable."""
    return map("id-{}".format, itertools.count()).__next__


def test_servers_first_then_each_pool_in_order() -> None:
    made = drafts(spec(3, (1, 2)), "c", [], numbers())
    assert [(one.role, one.pool) for one in made] == [
        *[(Role.CONTROL_PLANE, "control-plane")] * 3,
        (Role.WORKER, "md-0"),
        *[(Role.WORKER, "md-1")] * 2,
    ]
    assert [one.initialiser for one in made] == [True, False, False, False, False, False]


def test_a_draft_has_the_size_and_version_of_its_role() -> None:
    wanted = spec(
        1,
        (1,),
        control_plane_machine=ControlPlaneSize(cores=4, memory_mib=8192, disk_gib=31),
        worker_machine=WorkerSize(cores=8, memory_mib=1024, disk_gib=99),
    )
    server, worker = drafts(wanted, "c", [], numbers())
    assert (server.cores, server.memory_mib, server.disk_gib, server.version) == (4, 8192, 31, "v1.36.5+rke2r1")
    assert (worker.cores, worker.memory_mib, worker.disk_gib) == (8, 1024, 99)


def test_names_macs_and_ids_have_their_forms() -> None:
    for one in drafts(spec(3, (2,)), "c", [], numbers()):
        stem = "prod-cp" if one.role is Role.CONTROL_PLANE else "prod-md-0"
        assert re.fullmatch(rf"{stem}-[a-z0-9]{{5}}", one.name)
        assert re.fullmatch(r"bc:24:11(:[0-9a-f]{2}){3}", one.mac)
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", one.bios_uuid)


def test_the_longest_allowed_names_are_host_names() -> None:
    wanted = spec(1, (), name="p" * 40, pools=(WorkerPool(name="m" * 16, replicas=1),))
    for one in drafts(wanted, "c", [], numbers()):
        assert is_label(one.name)
        assert len(one.name) <= MAX_NAME
    with pytest.raises(ValueError, match="longer than 63"):
        drafts(spec(1, (), name="p" * 40, pools=(WorkerPool(name="m" * 17, replicas=1),)), "c", [], numbers())


@settings(max_examples=60, deadline=None)
@given(shapes, st.data())
def test_nothing_is_doubled_however_much_exists(shape, data) -> None:
    wanted = spec(*shape)
    having = [
        one.model_copy(update={"phase": data.draw(st.sampled_from([*Phase]))})
        for one in machines(wanted)
        if data.draw(st.booleans())
    ]
    made = drafts(wanted, "cluster-1", having, numbers())
    living = [one for one in having if not one.leaving]
    assert len(made) == short_of(wanted, having) == wanted.control_planes + wanted.workers - len(living)
    for field in ("id", "name", "mac", "bios_uuid"):
        values = [getattr(one, field) for one in (*having, *made)]
        assert len(values) == len(set(values))
    first = [one for one in (*having, *made) if one.initialiser]
    assert len(first) <= 1
    if not any(one.is_server for one in having):
        assert len(first) == 1


def test_the_initialiser_is_never_drafted_again() -> None:
    gone = machine(initialiser=True, phase=Phase.GONE)
    assert [one.initialiser for one in drafts(spec(1), "cluster-1", [gone], numbers())] == [False]


def test_more_machines_than_wanted_are_left_alone() -> None:
    assert drafts(spec(1), "cluster-1", machines(spec(3)), numbers()) == []
    assert short_of(spec(1), machines(spec(3))) == 0


def test_two_attempts_at_one_reservation_draft_the_same_machines() -> None:
    wanted = spec(3, (2,))
    one = drafts(wanted, "c", [], identities("c", 0))
    assert drafts(wanted, "c", [], identities("c", 0)) == one
    assert not {draft.name for draft in drafts(wanted, "other", [], identities("other", 0))} & {d.name for d in one}


def test_a_later_reservation_uses_no_name_again() -> None:
    having = [one.model_copy(update={"phase": Phase.GONE}) for one in machines(spec(3))]
    made = drafts(spec(3), "cluster-1", having, identities("cluster-1", len(having)))
    assert not {one.name for one in made} & {one.name for one in having}


def test_a_name_that_exists_is_passed_over() -> None:
    taken = drafts(spec(1), "c", [], identities("c", 0))[0]
    having = machine(taken.name, phase=Phase.GONE)
    (made,) = drafts(spec(1), "c", [having], identities("c", 0))
    assert made.name != taken.name


def test_a_source_that_repeats_itself_is_found_out() -> None:
    with pytest.raises(ValueError, match="new identities"):
        drafts(spec(3), "c", [], lambda: "same")
