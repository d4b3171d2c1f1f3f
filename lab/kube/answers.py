"""How objects leave the API: alone, in lists and pages, as tables, and as the stream of a watch."""

import asyncio
import contextlib
import json

from aiohttp import web

from lab.kube import refusals
from lab.kube.objects import Obj, key_of, meta
from lab.kube.resources import Resource, Target
from lab.kube.selectors import Selector
from lab.kube.storage import Change, Compacted, ObjectStore
from lab.kube.tables import table


def json_answer(body: Obj, code: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """A body as JSON."""
    return web.Response(status=code, body=json.dumps(body).encode(), content_type="application/json", headers=headers)


def one(request: web.BaseRequest, target: Target, obj: Obj, code: int = 200) -> web.Response:
    """One object, as the client asked to see it: whole, as a table, or its metadata alone."""
    accept = request.headers.get("Accept", "")
    if "as=Table" in accept and request.method == "GET":
        rows = table(
            target.resource,
            [obj],
            {"resourceVersion": meta(obj).get("resourceVersion")},
            request.query.get("includeObject", "Metadata"),
        )
        return json_answer(rows)
    if "as=PartialObjectMetadata;" in accept + ";":
        return json_answer(_partial(obj))
    return json_answer(obj, code)


def listing(store: ObjectStore, request: web.BaseRequest, target: Target, selector: Selector) -> web.Response:
    """A list, or a page of one; pages that follow each other show the same moment."""
    resource, query = target.resource, request.query
    since = _revision(query.get("resourceVersion", ""))
    if since > store.revision:
        raise refusals.future(since, store.revision)
    at, after = store.revision, [""]
    if query.get("resourceVersionMatch") == "Exact":
        at = since
    if mark := query.get("continue"):
        try:
            position = json.loads(bytes.fromhex(mark))
        except ValueError:
            raise refusals.bad_request("invalid continue token: continue key is not valid") from None
        at, after = position["rv"], position["key"]
    try:
        rows = store.rows_at(resource.storage, target.namespace, at)
    except Compacted:
        what = "continue parameter" if query.get("continue") else "resourceVersion for the provided list"
        raise refusals.expired(f"The provided {what} is too old to display a consistent list result.") from None
    objects = [obj for obj in rows if list(key_of(obj)) > after and selector(obj)]
    list_meta: Obj = {"resourceVersion": str(at)}
    try:
        limit = int(query.get("limit") or 0)
    except ValueError:
        raise refusals.bad_request(f'strconv.ParseInt: parsing "{query["limit"]}": invalid syntax') from None
    if 0 < limit < len(objects):
        position = {"rv": int(list_meta["resourceVersion"]), "key": list(key_of(objects[limit - 1]))}
        list_meta["continue"] = json.dumps(position).encode().hex()
        list_meta["remainingItemCount"] = len(objects) - limit
        objects = objects[:limit]
    accept = request.headers.get("Accept", "")
    if "as=Table" in accept:
        return json_answer(table(resource, objects, list_meta, query.get("includeObject", "Metadata")))
    if "as=PartialObjectMetadataList" in accept:
        return json_answer(
            {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": list_meta,
                "items": [_partial(obj) for obj in objects],
            }
        )
    items = (
        objects
        if resource.custom
        else [{name: value for name, value in obj.items() if name not in ("kind", "apiVersion")} for obj in objects]
    )
    return json_answer(
        {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": list_meta, "items": items}
    )


async def changes(
    store: ObjectStore, stop: asyncio.Event, request: web.BaseRequest, target: Target, selector: Selector
) -> web.StreamResponse:
    """Sends each change until the client goes, its time is over or `stop` is set."""
    resource, query = target.resource, request.query
    accept = request.headers.get("Accept", "")
    stream = web.StreamResponse(headers={"Content-Type": "application/json"})
    stream.enable_chunked_encoding()
    since = query.get("resourceVersion", "")
    _revision(since)
    initial = query.get("sendInitialEvents") == "true"
    start = int(since) if since.isdigit() and since != "0" and not initial else store.revision
    limit = float(query.get("timeoutSeconds") or 1800)
    ends = asyncio.get_running_loop().time() + limit
    events = store.watch(resource.storage, start, stop)

    def line(kind: str, obj: Obj) -> bytes:
        if "as=Table" in accept and kind != "BOOKMARK":
            obj = table(
                resource,
                [obj],
                {"resourceVersion": meta(obj).get("resourceVersion")},
                query.get("includeObject", "Metadata"),
            )
        elif "as=PartialObjectMetadata;" in accept + ";":
            obj = _partial(obj)
        return json.dumps({"type": kind, "object": obj}).encode() + b"\n"

    await stream.prepare(request)
    if since in ("", "0") or initial:
        first = [obj for obj in store.rows(resource.storage, target.namespace) if selector(obj)]
        for obj in first:
            await stream.write(line("ADDED", obj))
        if initial:
            await stream.write(line("BOOKMARK", _bookmark(resource, start, {"k8s.io/initial-events-end": "true"})))
    try:
        async with asyncio.timeout_at(ends):
            async for change in events:
                if change is None:
                    if query.get("allowWatchBookmarks") == "true":
                        await stream.write(line("BOOKMARK", _bookmark(resource, store.revision, {})))
                    if request.transport is None or request.transport.is_closing():
                        break
                    continue
                kind = _seen_as(change, selector, target.namespace)
                if kind:
                    await stream.write(line(kind, change.obj))
    except TimeoutError:
        pass
    except Compacted as gone:
        text = f"too old resource version: {start} ({gone.oldest})"
        await stream.write(json.dumps({"type": "ERROR", "object": refusals.expired(text).body}).encode() + b"\n")
    except ConnectionError:
        return stream
    with contextlib.suppress(ConnectionError):  # the watcher has gone
        await stream.write_eof()
    return stream


def _revision(text: str) -> int:
    """The number in a resourceVersion, 0 for none; refuses (400) what is no number."""
    if text and not text.isdigit():
        raise refusals.bad_revision(text)
    return int(text or 0)


def _seen_as(change: Change, selector: Selector, namespace: str) -> str:
    """What a watcher with this selector is told of a change; "" when it does not concern it."""
    if namespace and key_of(change.obj)[0] != namespace:
        return ""
    before = change.previous is not None and selector(change.previous)
    if change.type == "DELETED":
        return "DELETED" if before else ""
    after = selector(change.obj)
    if before and after:
        return "MODIFIED"
    return "ADDED" if after else ("DELETED" if before else "")


def _bookmark(resource: Resource, revision: int, annotations: dict[str, str]) -> Obj:
    data: Obj = {"resourceVersion": str(revision), "creationTimestamp": None}
    if annotations:
        data["annotations"] = annotations
    return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": data}


def _partial(obj: Obj) -> Obj:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta(obj)}
