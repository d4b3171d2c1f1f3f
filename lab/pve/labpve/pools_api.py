"""/pools: nested pools, the 501 of a nested id in the path, and ACLs that go with the pool."""

from fakepve.model import PveError
from fakepve.routing import die


class NestedPools:
    """Mixin over fakepve's PoolsApi."""

    def _routes_pools(self):
        pools, one = "/pools", "/pools/{poolid}"
        return [
            ("GET", pools, self._pool_index),
            ("POST", pools, self._pool_create),
            ("PUT", pools, self._pool_update),
            ("DELETE", pools, self._pool_delete),
            ("GET", one, self._by_path("GET", self._pool_read)),
            ("PUT", one, self._by_path("PUT", self._pool_update)),
            ("DELETE", one, self._by_path("DELETE", self._pool_delete)),
        ]

    @staticmethod
    def _by_path(method, handler):
        """The deprecated form: a `/` in the id splits the path, so no nested pool can be named by it."""

        async def guarded(v, user):
            if "/" in v["poolid"]:
                raise PveError(501, f"Method '{method} /pools/{v['poolid']}' not implemented")
            return await handler(v, user)

        return guarded

    async def _pool_index(self, v, user):
        if v.get("poolid"):
            self.require(user, "/pool/" + v["poolid"], "Pool.Audit")
        return await super()._pool_index(v, user)

    async def _pool_create(self, v, user):
        self.need_quorum()
        if v["poolid"].count("/") > 2:
            raise die("create pool failed: pool name must not have more than 3 levels")
        await super()._pool_create(v, user)

    async def _pool_update(self, v, user):
        self.need_quorum()
        await super()._pool_update(v, user)

    async def _pool_delete(self, v, user):
        self.need_quorum()
        await super()._pool_delete(v, user)
        self.access.drop_path("/pool/" + v["poolid"])

    def _pool_members(self):
        """The paths of everything that is in a pool, for the access engine."""
        for name, ids in self.pools.items():
            yield from (f"/vms/{vmid}" for vmid in ids)
            yield from (f"/storage/{sid}" for sid in self.pool_info.get(name, {}).get("storage", ()))

    def _pools_of(self, path):
        """The pools that a VM or storage is a member of."""
        _, kind, name = path.split("/", 2)
        for pool, ids in self.pools.items():
            if (kind == "vms" and name.isdigit() and int(name) in ids) or (
                kind == "storage" and name in self.pool_info.get(pool, {}).get("storage", ())
            ):
                yield pool
