"""What was seen of etcd, on a cluster's page and in `trilithon describe`."""

import pytest

from cli.clusters import _describe_etcd
from domain.etcd import EtcdMember, EtcdView
from domain.machines import drafts, identities
from tests.api.test_rights import PROD
from tests.api.world import World

MIB = 1024**2


async def test_each_member_stands_under_its_machines_name(world: World) -> None:
    person = world.person("dev@pve")
    assert (await person.get(PROD)).json()["etcd"] is None
    cluster = await world.store.clusters.find("clusters", "prod")
    assert cluster is not None
    wanted = drafts(cluster.spec, cluster.id, [], identities(cluster.id, 0))
    machines = await world.store.machines.reserve(cluster.id, wanted)
    server = next(one for one in machines if one.is_server)
    members = (
        EtcdMember(id="a", name=server.name, healthy=True),
        EtcdMember(id="b", peer_urls=("https://192.0.2.99:2380",), learner=True),
    )
    view = EtcdView(members=members, leader="a", size=24 * MIB, quota=2048 * MIB, version="3.6.16")
    await world.store.clusters.set_etcd(cluster.id, view)
    shown = (await person.get(PROD)).json()["etcd"]
    assert (shown["healthy"], shown["voters"], shown["tolerance"]) == (1, 1, 0)
    assert (shown["leader"], shown["size"], shown["version"]) == (server.name, 24 * MIB, "3.6.16")
    rows = {one["name"]: one for one in shown["members"]}
    assert (rows[server.name]["leader"], rows[server.name]["machine"], rows[server.name]["healthy"]) == (
        True,
        True,
        True,
    )
    stranger = rows["b (never started)"]
    assert (stranger["machine"], stranger["learner"], stranger["healthy"]) == (False, True, None)


def test_the_command_line_says_it_in_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    member = {"name": "prod-cp-a", "healthy": True, "leader": True, "learner": False, "machine": True, "message": ""}
    stranger = {"name": "9", "healthy": None, "leader": False, "learner": True, "machine": False, "message": ""}
    etcd = {"healthy": 1, "voters": 1, "tolerance": 0, "size": 24 * MIB, "quota": 2048 * MIB}
    _describe_etcd({**etcd, "members": [member, stranger]})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Etcd: 1 of 1 members healthy, may lose 0 more, 24 MiB of 2 GiB used"
    assert lines[1].split() == ["prod-cp-a", "healthy", "leader"]
    assert lines[2].split() == ["9", "unknown", "learner", "belongs", "to", "no", "machine"]
