"""Why a workload is not ready, in the words of the object that knows: itself, or the pod that does not start."""

from collections.abc import Sequence
from typing import Any

from clients.kubernetes import KubernetesClient
from domain.releases import Release

WORKLOADS = {"DaemonSet": "daemonsets", "Deployment": "deployments", "StatefulSet": "statefulsets"}
"""Kinds that can be asked, with their resource names."""
_WORDS = 300
"""Longest message of a pod that is repeated, in characters."""

Json = dict[str, Any]


async def unready(client: KubernetesClient, kind: str, namespace: str, name: str) -> str:
    """Why the workload is not ready; empty when it is.

    Raises:
        KubernetesError: the API cannot be asked.
    """
    found = await client.find(f"/apis/apps/v1/namespaces/{namespace}/{WORKLOADS[kind]}/{name}")
    if found is None:
        return f"{kind} {namespace}/{name} does not exist."
    return await _why(client, kind, found)


async def release_unready(client: KubernetesClient, releases: Sequence[Release]) -> str:
    """Why the DaemonSets of the given releases are not ready on every node; empty when they are.

    They are looked for in every namespace, since an operator makes some of them where it likes.

    Raises:
        KubernetesError: the API cannot be asked.
    """
    wanted = [name for release in releases for name in release.daemons]
    if not wanted:
        return ""
    listed = (await client.get("/apis/apps/v1/daemonsets"))["items"]
    by_name = {str(one["metadata"]["name"]): one for one in listed}
    for name in wanted:
        found = by_name.get(name)
        if found is None:
            return f"DaemonSet {name} does not exist yet."
        if why := await _why(client, "DaemonSet", found):
            return why
    return ""


async def _why(client: KubernetesClient, kind: str, workload: Json) -> str:
    metadata, status = workload["metadata"], workload.get("status") or {}
    if kind == "DaemonSet":
        wanted, ready = status.get("desiredNumberScheduled"), int(status.get("numberReady") or 0)
    else:
        wanted, ready = (workload.get("spec") or {}).get("replicas", 1), int(status.get("readyReplicas") or 0)
    if wanted is not None and ready >= int(wanted) and (kind != "DaemonSet" or int(wanted) > 0):
        return ""
    text = f"{kind} {metadata['namespace']}/{metadata['name']}: {ready} of {wanted or 0} ready"
    pod = await _pod_trouble(client, workload)
    return f"{text}; {pod}" if pod else f"{text}."


async def _pod_trouble(client: KubernetesClient, workload: Json) -> str:
    """The first pod of the workload that says why it does not run."""
    labels = (workload["spec"].get("selector") or {}).get("matchLabels") or {}
    if not labels:
        return ""
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    path = f"/api/v1/namespaces/{workload['metadata']['namespace']}/pods"
    for pod in (await client.get(path, labelSelector=selector))["items"]:
        if said := _said(pod):
            return f"pod {pod['metadata']['name']}: {said[:_WORDS]}"
    return ""


def _said(pod: Json) -> str:
    status = pod.get("status") or {}
    boxes = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    for box in boxes:
        waiting = (box.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in ("ContainerCreating", "PodInitializing"):
            ended = ((box.get("lastState") or {}).get("terminated") or {}).get("message") or ""
            words = " ".join(f"{waiting.get('message') or ''} {ended}".split())
            return f"{box.get('name')}: {waiting['reason']}{f' ({words})' if words else ''}"
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"{condition.get('reason') or 'Unschedulable'}: {condition.get('message') or 'no node takes it'}"
    return ""
