"""Subresources and reviews: eviction, binding, tokens, and questions about rights."""

import base64

from lab.kube import refusals
from lab.kube.access import Attempt
from lab.kube.api import Call, KubeApi
from lab.kube.controllers import budget_status
from lab.kube.identity import ISSUER, Identity, from_token
from lab.kube.objects import Obj, dig, key_of, labels_of, meta, now_text
from lab.kube.refusals import Refusal
from lab.kube.resources import Resource, Target
from lab.kube.selectors import from_object, labels_match

_EVICTION = Resource("policy", "v1", "evictions", "Eviction")
_DONE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def evict(api: KubeApi, target: Target, body: Obj, call: Call) -> Obj:
    """Deletes a pod if its disruption budgets allow it; raises Refusal 429 when one does not."""
    pod = api.read(target)
    if body.get("kind") not in (None, "Eviction"):
        raise refusals.other_kind(str(body.get("apiVersion")), str(body.get("kind")), _EVICTION)
    name = dig(body, "metadata", "name", default=target.name)
    if name != target.name:
        raise refusals.bad_request("name in URL does not match name in Eviction object")
    budgets = []
    for budget in api.rows("poddisruptionbudgets", target.namespace):
        wanted = from_object(dig(budget, "spec", "selector"))
        if wanted is not None and labels_match(wanted, labels_of(pod)):
            budgets.append(budget)
    counts = dig(pod, "status", "phase") not in ("Succeeded", "Failed", "Pending") and not meta(pod).get(
        "deletionTimestamp"
    )
    if counts and len(budgets) > 1:
        raise Refusal(
            500,
            "",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        )
    for budget in budgets if counts else []:
        status = budget_status(api, budget)
        if status["disruptionsAllowed"] <= 0:
            text = f"The disruption budget {meta(budget)['name']} does not allow evicting pods currently"
            if status["currentHealthy"] <= status["desiredHealthy"]:
                text = (
                    f"The disruption budget {meta(budget)['name']} needs {status['desiredHealthy']} healthy pods and "
                    f"has {status['currentHealthy']} currently"
                )
            raise Refusal(
                429,
                "TooManyRequests",
                "Cannot evict pod as it would violate the pod's disruption budget.",
                {"causes": [{"reason": "DisruptionBudget", "message": text}]},
            )
    options = body.get("deleteOptions") or {}
    only_tried = call.dry_run or "All" in (options.get("dryRun") or [])
    api.delete(target, options, Call(call.identity, call.manager, only_tried))
    return _DONE


def bind(api: KubeApi, target: Target, body: Obj) -> Obj:
    """What the scheduler does: gives a pod its node."""
    node = dig(body, "target", "name", default="")
    if dig(api.read(target), "spec", "nodeName"):
        raise refusals.conflict(target.resource, target.name, f"pod {target.name} is already assigned to a node")
    api.change("pods", (target.namespace, target.name), lambda pod: pod["spec"].update(nodeName=node))
    return _DONE


def request_token(api: KubeApi, target: Target, body: Obj) -> Obj:
    """Answers a TokenRequest; at least ten minutes, as the API demands."""
    account = api.read(target)
    spec = body.get("spec") or {}
    seconds = spec.get("expirationSeconds") or 3600
    why = "less than 10 minutes" if seconds < 600 else "larger than 2^32 seconds" if seconds > 2**32 else ""
    if why:
        text = f"Invalid value: {seconds}: may not specify a duration {why}"
        cause = ("spec.expirationSeconds", "FieldValueInvalid", text)
        raise refusals.invalid(Resource("authentication.k8s.io", "v1", "", "TokenRequest"), "", cause)
    if bound := spec.get("boundObjectRef"):
        kinds = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
        plural = kinds.get(bound.get("kind"))
        if plural is None:
            where = f"/{bound.get('apiVersion', '')}, Kind={bound.get('kind', '')}"
            raise refusals.bad_request(f"cannot bind token to object of type {where}")
        space = "" if plural == "nodes" else target.namespace
        api.read(Target(api.registry.named(plural), space, bound.get("name", "")))
    token, ends = api.signer.issue(account, seconds, spec.get("audiences") or None)
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": target.name, "namespace": target.namespace, "creationTimestamp": now_text()},
        "spec": {"audiences": spec.get("audiences") or [ISSUER], "expirationSeconds": seconds, "boundObjectRef": None},
        "status": {"token": token, "expirationTimestamp": now_text(ends)},
    }


def review(api: KubeApi, target: Target, body: Obj, identity: Identity) -> Obj:
    """Answers the review kinds, which are asked and not stored."""
    kind = target.resource.kind
    spec = body.get("spec") or {}
    answer: Obj = {"kind": kind, "apiVersion": target.resource.api_version, "metadata": {}, "spec": spec}
    if kind == "SelfSubjectReview":
        del answer["spec"]
        answer["status"] = {"userInfo": _user_info(identity)}
    elif kind == "TokenReview":
        if not spec.get("token"):
            raise refusals.bad_request("token is required for TokenReview in authentication")
        try:
            found = from_token(spec.get("token", ""), api.signer, api, (spec.get("audiences") or [ISSUER])[0])
            answer["status"] = {"authenticated": True, "user": _user_info(found)}
        except Refusal:
            answer["status"] = {"authenticated": False, "error": "invalid bearer token"}
    elif kind == "SelfSubjectRulesReview":
        namespace = spec.get("namespace", "default")
        rules = list(api.authoriser.rules(identity, namespace))
        answer["status"] = {
            "incomplete": False,
            "resourceRules": [rule for rule in rules if rule.get("resources")],
            "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
        }
    else:
        if bool(spec.get("resourceAttributes")) == bool(spec.get("nonResourceAttributes")):
            text = "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
            raise refusals.invalid(target.resource, "", ("spec.resourceAttributes", "FieldValueInvalid", text))
        who = identity
        if kind != "SelfSubjectAccessReview":
            who = Identity(spec.get("user", ""), tuple(spec.get("groups") or ()))
        allowed = api.authoriser.allows(who, _attempt(spec, target.namespace))
        answer["status"] = {"allowed": allowed}
    return answer


def _attempt(spec: Obj, namespace: str) -> Attempt:
    if paths := spec.get("nonResourceAttributes"):
        return Attempt(paths.get("verb", "get"), path=paths.get("path", ""))
    wanted = spec.get("resourceAttributes") or {}
    return Attempt(
        wanted.get("verb", ""),
        wanted.get("group", ""),
        wanted.get("resource", ""),
        wanted.get("subresource", ""),
        wanted.get("namespace", "") or namespace,
        wanted.get("name", ""),
    )


def _user_info(identity: Identity) -> Obj:
    info: Obj = {"username": identity.user, "groups": list(identity.groups)}
    if identity.uid:
        info["uid"] = identity.uid
    return info


def scale(api: KubeApi, target: Target, replicas: int | None) -> Obj:
    """Reads or sets the number of replicas of a workload."""
    if replicas is not None:
        api.change(
            target.resource.plural,
            (target.namespace, target.name),
            lambda obj: obj["spec"].update(replicas=replicas),
            group=target.resource.group,
        )
    obj = api.read(target)
    data = {
        name: value
        for name, value in meta(obj).items()
        if name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": data,
        "spec": {"replicas": dig(obj, "spec", "replicas", default=0)},
        "status": {"replicas": dig(obj, "status", "replicas", default=0)},
    }


def secret_text(api: KubeApi, namespace: str, name: str, key: str) -> str | None:
    """One decoded value of a Secret, None when Secret or key are missing."""
    secret = api.find("secrets", namespace, name)
    value = dig(secret or {}, "data", key)
    return base64.b64decode(value).decode() if isinstance(value, str) else None


def pods_on(api: KubeApi, node: str) -> list[Obj]:
    """The pods that a node runs."""
    return [pod for pod in api.rows("pods") if dig(pod, "spec", "nodeName") == node and key_of(pod)]
