"""HTTP over the API: one listener answers for one server of a cluster."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import yaml
from aiohttp import web
from cryptography import x509

from lab.kube import discovery, protobuf, refusals, reviews
from lab.kube.access import Attempt
from lab.kube.answers import changes, json_answer, listing, one
from lab.kube.api import Call, KubeApi, Patch
from lab.kube.identity import ANONYMOUS, Identity, from_certificate, from_token
from lab.kube.objects import Obj, dig, key_of
from lab.kube.refusals import Refusal
from lab.kube.resources import Target, parse_path
from lab.kube.selectors import Selector
from lab.yaml_reader import read_yaml

_PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OPEN_PATHS = ("/livez", "/readyz", "/healthz")

Extra = Callable[[web.BaseRequest], Awaitable[web.StreamResponse | None]]


class ApiHandler:
    """Answers requests for one cluster.

    `extra` may answer first (k3s serves its join endpoints on the same port); `trouble` gives the reason why the
    server cannot work right now (no etcd majority), "" when it can.
    """

    def __init__(
        self,
        api: KubeApi,
        client_authorities: list[x509.Certificate],
        address: str,
        extra: Extra | None = None,
        trouble: Callable[[], str] = lambda: "",
    ) -> None:
        self._api = api
        self._authorities = client_authorities
        self._address = address
        self._extra = extra
        self._trouble = trouble
        self.stop = asyncio.Event()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handles one request; every refusal leaves as a Status object."""
        try:
            if self._extra is not None and (answer := await self._extra(request)) is not None:
                return answer
            return await self._answer(request)
        except Refusal as refusal:
            return json_answer(refusal.body, refusal.code, refusal.headers)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        identity = self._who(request)
        path = request.path.rstrip("/") or "/"
        trouble = self._trouble()
        if path.startswith(_OPEN_PATHS):
            self._api.authoriser.demand(identity, Attempt("get", path=path))
            if trouble:
                return web.Response(
                    status=500, text=f"[+]ping ok\n[-]etcd failed: {trouble}\n{path[1:]} check failed\n"
                )
            return web.Response(text="ok")
        target = parse_path(self._api.registry, path)
        if target is None:
            # Whether somebody may is decided before whether it exists, as nobody shall learn by asking.
            if named := unknown_path(path):
                verb = self._verb(request.method, bool(named.name), False)
                self._api.authoriser.demand(identity, replace(named, verb=verb))
            return self._document(request, identity, path)
        if trouble:
            raise refusals.unavailable(trouble)
        return await self._resource(request, identity, target)

    def _who(self, request: web.BaseRequest) -> Identity:
        header = request.headers.get("Authorization", "")
        if header.startswith("Bearer "):
            return from_token(header[7:].strip(), self._api.signer, self._api)
        transport = request.transport
        channel = transport.get_extra_info("ssl_object") if transport else None
        der = channel.getpeercert(binary_form=True) if channel else None
        identity = from_certificate(der, self._authorities) if der else ANONYMOUS
        if user := request.headers.get("Impersonate-User"):
            groups = tuple(request.headers.getall("Impersonate-Group", []))
            if user.startswith("system:serviceaccount:") and not groups:
                groups = ("system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}")
            self._api.authoriser.demand(identity, Attempt("impersonate", resource="users", name=user))
            return Identity(user, (*groups, "system:authenticated"))
        if "Impersonate-Group" in request.headers:
            raise refusals.bad_request("requested groups without impersonating a user name")
        return identity

    # documents

    def _document(self, request: web.BaseRequest, identity: Identity, path: str) -> web.Response:
        verb = "get" if request.method in ("GET", "HEAD") else request.method.lower()
        self._api.authoriser.demand(identity, Attempt(verb, path=path))
        registry, parts = self._api.registry, path.strip("/").split("/")
        accept = request.headers.get("Accept", "")
        found: Obj | None = None
        if path == "/version":
            found = discovery.version(self._api.version)
        elif path in ("/api", "/apis"):
            core = path == "/api"
            if "APIGroupDiscoveryList" in accept and "v=v2" in accept:
                kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
                return web.Response(
                    body=json.dumps(discovery.aggregated(registry, core)), headers={"Content-Type": kind}
                )
            found = discovery.core_versions(self._address) if core else discovery.group_list(registry)
        elif parts[0] == "api" and len(parts) == 2:
            found = discovery.resource_list(registry, "", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            found = discovery.group(registry, parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            found = discovery.resource_list(registry, parts[1], parts[2])
        elif path == "/openapi/v3":
            found = discovery.openapi_v3_index(registry)
        elif path.startswith("/openapi/v3/"):
            found = discovery.openapi_v3(registry, path.removeprefix("/openapi/v3/"))
        elif path == "/":
            found = {"paths": ["/api", "/apis", "/livez", "/openapi/v3", "/readyz", "/version"]}
        if found is None and (path.startswith("/api/v1/") or (parts[0] == "apis" and parts[1] in registry.groups())):
            raise refusals.no_such_path()
        if found is None:
            return web.Response(status=404, text="404 page not found\n")
        return json_answer(found)

    # resources

    async def _resource(self, request: web.BaseRequest, identity: Identity, target: Target) -> web.StreamResponse:
        resource, query, method = target.resource, request.query, request.method
        watching = query.get("watch") in ("true", "1") and method == "GET"
        selector = Selector(resource.plural, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        verb = self._verb(method, bool(target.name), watching)
        self._api.authoriser.demand(
            identity,
            Attempt(
                verb,
                resource.group,
                resource.plural,
                target.subresource,
                target.namespace or (target.name if resource.plural == "namespaces" else ""),
                target.name or selector.name,
                on_node=selector.node,
            ),
        )
        if target.subresource == "" and verb not in resource.verbs:
            raise refusals.method_not_allowed()
        if (method == "PUT" and not target.name) or (method == "DELETE" and target.subresource):
            raise refusals.method_not_allowed()
        _check_options(method, query)
        call = Call(identity, _manager(request), query.get("dryRun") == "All")
        if verb in ("get", "list", "watch") and target.subresource in ("", "status"):
            if target.name and not watching:
                return one(request, target, self._api.read(target))
            if target.name:
                selector = Selector(resource.plural, "", f"metadata.name={target.name}")
            if watching:
                return await changes(self._api.store, self.stop, request, target, selector)
            return listing(self._api.store, request, target, selector)
        body = await _body(request)
        if method == "POST":
            return self._post(request, target, body, call)
        if method == "PUT":
            return self._put(request, target, body, call)
        if method == "PATCH":
            return self._patch(request, target, body, call)
        if method == "DELETE":
            return self._delete(request, target, selector, body, call)
        if target.subresource == "scale":
            return json_answer(reviews.scale(self._api, target, None))
        if target.subresource == "log":
            self._api.read(target)
            return web.Response(text="")
        raise refusals.method_not_allowed()

    @staticmethod
    def _verb(method: str, named: bool, watching: bool) -> str:
        if method in ("GET", "HEAD"):
            return "watch" if watching else ("get" if named else "list")
        if method == "DELETE" and not named:
            return "deletecollection"
        if method not in _VERBS:
            raise refusals.method_not_allowed()
        return _VERBS[method]

    def _post(self, request: web.BaseRequest, target: Target, body: Any, call: Call) -> web.Response:
        if target.subresource == "eviction":
            return json_answer(reviews.evict(self._api, target, body, call), 201)
        if target.subresource == "binding":
            return json_answer(reviews.bind(self._api, target, body), 201)
        if target.subresource == "token":
            return json_answer(reviews.request_token(self._api, target, body), 201)
        if "list" not in target.resource.verbs:
            return json_answer(reviews.review(self._api, target, body, call.identity), 201)
        if target.name:
            raise refusals.method_not_allowed()
        if target.resource.namespaced and not target.namespace:
            raise refusals.method_not_allowed()
        return one(request, target, self._api.create(target, body, call), 201)

    def _put(self, request: web.BaseRequest, target: Target, body: Any, call: Call) -> web.Response:
        if target.subresource == "scale":
            return json_answer(reviews.scale(self._api, target, dig(body, "spec", "replicas", default=0)))
        if target.subresource == "finalize":
            self._api.take("namespaces", ("", target.name), "")
            return json_answer(body)
        if target.subresource not in ("", "status"):
            raise refusals.method_not_allowed()
        known = self._api.store.get(target.resource.storage, (target.namespace, target.name)) is not None
        return one(request, target, self._api.update(target, body, call), 200 if known else 201)

    def _patch(self, request: web.BaseRequest, target: Target, body: Any, call: Call) -> web.Response:
        kind = _PATCHES.get(request.content_type)
        if kind is None or (kind == "strategic" and target.resource.custom):
            raise Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        if kind == "apply" and not request.query.get("fieldManager"):
            why = "Required value: is required for apply patch"
            raise refusals.bad_options("PatchOptions", "fieldManager", "FieldValueRequired", why)
        if kind != "apply" and "force" in request.query:
            why = "Forbidden: may not be specified for non-apply patch"
            raise refusals.bad_options("PatchOptions", "force", "FieldValueForbidden", why)
        if target.subresource == "scale":
            return json_answer(reviews.scale(self._api, target, dig(body, "spec", "replicas")))
        obj, created = self._api.patch(
            target, Patch(kind, body, request.query.get("force", "false") not in ("false", "0")), call
        )
        return one(request, target, obj, 201 if created else 200)

    def _delete(
        self, request: web.BaseRequest, target: Target, selector: Selector, body: Any, call: Call
    ) -> web.Response:
        options: Obj = body if isinstance(body, dict) else {}
        for name in ("gracePeriodSeconds", "propagationPolicy"):
            if name in request.query:
                value = request.query[name]
                options = {**options, name: int(value) if value.isdigit() else value}
        call = Call(call.identity, call.manager, call.dry_run or "All" in (options.get("dryRun") or []))
        if target.name:
            return json_answer(self._api.delete(target, options, call))
        gone = [obj for obj in self._api.store.rows(target.resource.storage, target.namespace) if selector(obj)]
        for obj in gone:
            space, name = key_of(obj)
            self._api.delete(Target(target.resource, space, name), options, call)
        return json_answer(
            {
                "kind": f"{target.resource.kind}List",
                "apiVersion": target.resource.api_version,
                "metadata": {"resourceVersion": str(self._api.store.revision)},
                "items": gone,
            }
        )


def unknown_path(path: str) -> Attempt | None:
    """What a path below a group would name if it were served; None for any other path."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return None
    space = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        space, rest = rest[1], rest[2:]
    name, subresource = (*rest[1:3], "", "")[:2]
    return Attempt("", group, rest[0], subresource, space, name)


def _check_options(method: str, query: Mapping[str, str]) -> None:
    kinds = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
    if method in kinds and (given := query.get("dryRun")) not in (None, "All"):
        why = f'Unsupported value: ["{given}"]: supported values: "All"'
        raise refusals.bad_options(kinds[method], "dryRun", "FieldValueNotSupported", why)


def _manager(request: web.BaseRequest) -> str:
    given = request.query.get("fieldManager")
    return given or request.headers.get("User-Agent", "unknown").split("/")[0][:128] or "unknown"


async def _body(request: web.BaseRequest) -> Any:
    raw = await request.read()
    if not raw and request.method in ("POST", "PUT"):
        raise refusals.bad_request("the object provided is unrecognized: unexpected end of JSON input")
    if not raw:
        return {}
    kind = request.content_type
    if "yaml" in kind:
        try:
            return read_yaml(raw)
        except yaml.YAMLError as error:
            raise refusals.bad_request(f"error decoding YAML: {error}") from error
    if kind == protobuf.MEDIA:
        try:
            decoded = protobuf.decode(raw)
        except ValueError as error:
            raise refusals.bad_request(f"protobuf: {error}") from error
        if decoded is None:
            raise refusals.unsupported_media(kind, "application/json, application/yaml")
        return decoded
    if "json" not in kind and kind != "application/octet-stream":
        raise refusals.unsupported_media(kind, "application/json, application/yaml")
    try:
        return json.loads(raw)
    except ValueError as error:
        raise refusals.bad_request(f"couldn't get version/kind; json parse error: {error}") from error


class Listener:
    """One listening socket with TLS that answers through a handler, and can be cut off like a power line."""

    def __init__(
        self,
        host: str,
        port: int,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        context: ssl.SSLContext,
    ) -> None:
        self.host = host
        self.port = port
        self._context = context
        self._web = web.Server(handler, access_log=None)
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Begins to listen; raises OSError when the address cannot be had."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._web, self.host, self.port, ssl=self._context, reuse_address=True, ssl_handshake_timeout=10
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Ends at once: the socket and every open connection."""
        if self._server is None:
            return
        server, self._server = self._server, None
        loop = asyncio.get_running_loop()
        for socket in server.sockets:
            loop.remove_reader(socket.fileno())
        # What was accepted just now needs a moment to become a connection: a closed server would lose its socket.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        server.close()
        for connection in list(self._web.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()
        await self._web.shutdown(0)
