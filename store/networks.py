"""Addresses of a network: who holds which, and which one the next machine gets.

A network is a site's bridge with its VLAN; an address is held once in it, by a machine or as a cluster's virtual IP.
A row outlives its release and remembers the last holder: an address that this very cluster has given back is taken
again only when nothing else is free, so that a stale neighbour table or a half-dead VM does little harm.
Every function here runs inside a write transaction that holds the site's lock.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlalchemy import delete, insert, select, update

from domain import addresses
from domain.clusters import ClusterSpec, NetworkSpec
from store import tables
from store.database import Writing
from store.errors import InUse, NoFreeAddress

_t = tables.addresses


def virtual_ip(spec: ClusterSpec) -> str | None:
    """The endpoint as an address in canonical writing, or None when it is a name."""
    number = addresses.address(spec.endpoint)
    return None if number is None else addresses.dotted(number)


class Free:
    """The addresses that machines of one cluster may take, best first; read once for a whole reservation."""

    def __init__(self, spec: ClusterSpec, held: Collection[str], given_back: Sequence[str]) -> None:
        """`given_back`: what this cluster itself has released, longest ago first."""
        self._spec = spec
        self._queue = self._in_order(spec.network, {*held, spec.network.gateway, virtual_ip(spec)}, given_back)

    @staticmethod
    def _in_order(network: NetworkSpec, barred: Collection[str | None], given_back: Sequence[str]) -> Iterator[str]:
        later = set(given_back)
        # Lazy: a network of millions of addresses costs only as many looks as addresses are held.
        yield from (address for address in addresses.expand(network) if address not in barred and address not in later)
        parts = addresses.usable(network)
        for address in given_back:
            number = addresses.address(address)
            if address not in barred and any(number in part for part in parts):
                yield address

    @classmethod
    async def read(cls, writing: Writing, cluster_id: str, site_id: str, spec: ClusterSpec) -> "Free":
        """What is free in the network of this cluster's nodes; its gateway and virtual IP are never offered."""
        rows = await writing.connection.execute(
            select(_t.c.address, _t.c.cluster_id, _t.c.released_at)
            .where(_t.c.network_id == addresses.network_id(site_id, spec.network))
            .order_by(_t.c.released_at, _t.c.address)
        )
        held: set[str] = set()
        given_back: list[str] = []
        for row in rows:
            if row.released_at is None:
                held.add(row.address)
            elif row.cluster_id == cluster_id:
                given_back.append(row.address)
        return cls(spec, held, given_back)

    def next(self) -> str:
        """Takes the next address. Raises NoFreeAddress, naming the network and its addresses."""
        address = next(self._queue, None)
        if address is not None:
            return address
        network = self._spec.network
        where = network.bridge + (f" VLAN {network.vlan}" if network.vlan else "")
        raise NoFreeAddress(
            f"no address is free for cluster {self._spec.namespace}/{self._spec.name} on {where}: "
            f"all of {', '.join(network.addresses)} are taken. Add addresses to its network."
        )


async def hold_for_machines(writing: Writing, network: str, cluster_id: str, addresses: Mapping[str, str]) -> None:
    """Records machines (by id) as the holders of addresses that `Free` gave out under this very lock."""
    where = (_t.c.network_id == network, _t.c.address.in_(list(addresses.values())), _t.c.released_at.is_not(None))
    await writing.connection.execute(delete(_t).where(*where))
    rows = [
        {"network_id": network, "address": address, "cluster_id": cluster_id, "machine_id": machine_id}
        for machine_id, address in addresses.items()
    ]
    await writing.connection.execute(insert(_t), rows)


async def hold_virtual_ip(writing: Writing, network: str, address: str, cluster_id: str) -> None:
    """Records a cluster's virtual IP. Raises InUse when the address is held already."""
    row = (
        await writing.connection.execute(select(_t).where(_t.c.network_id == network, _t.c.address == address))
    ).one_or_none()
    values = {"cluster_id": cluster_id, "machine_id": None, "released_at": None}
    if row is None:
        await writing.connection.execute(insert(_t).values(network_id=network, address=address, **values))
    elif row.released_at is not None:
        await writing.connection.execute(
            update(_t).where(_t.c.network_id == network, _t.c.address == address).values(**values)
        )
    elif (row.cluster_id, row.machine_id) != (cluster_id, None):
        raise InUse(f"address {address} is taken on this network by another cluster or machine")


async def release_virtual_ip(writing: Writing, cluster_id: str) -> None:
    """Gives the virtual IP of a cluster back."""
    await writing.connection.execute(
        update(_t)
        .where(_t.c.cluster_id == cluster_id, _t.c.machine_id.is_(None), _t.c.released_at.is_(None))
        .values(released_at=writing.now)
    )


async def release_machine(writing: Writing, machine_id: str) -> None:
    """Gives the address of a machine back."""
    await writing.connection.execute(
        update(_t).where(_t.c.machine_id == machine_id, _t.c.released_at.is_(None)).values(released_at=writing.now)
    )
