"""Role based access: what an identity may do, from the Roles and bindings that are stored."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from lab.kube import node_access
from lab.kube.identity import Identity
from lab.kube.objects import Obj, dig, meta
from lab.kube.refusals import Refusal

RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Attempt:
    """One thing that somebody wants to do.

    `path` is set for paths that are no resource; `on_node` is the node that a field selector restricts a list to.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    on_node: str = ""


class RoleSource(Protocol):
    """Reads the stored roles and bindings."""

    def find(self, plural: str, namespace: str, name: str) -> Obj | None: ...

    def rows(self, plural: str, namespace: str = "") -> list[Obj]: ...


def rule_allows(rule: Obj, attempt: Attempt) -> bool:
    """True when one rule of a role covers the attempt."""
    verbs = rule.get("verbs") or []
    if attempt.verb not in verbs and "*" not in verbs:
        return False
    if attempt.path:
        for pattern in rule.get("nonResourceURLs") or []:
            if pattern == attempt.path or (pattern.endswith("*") and attempt.path.startswith(pattern[:-1])):
                return True
        return False
    groups = rule.get("apiGroups") or []
    if attempt.group not in groups and "*" not in groups:
        return False
    wanted = f"{attempt.resource}/{attempt.subresource}" if attempt.subresource else attempt.resource
    resources = rule.get("resources") or []
    if wanted not in resources and "*" not in resources and f"*/{attempt.subresource}" not in resources:
        return False
    names = rule.get("resourceNames") or []
    return not names or attempt.name in names


def _subject_matches(subject: Obj, identity: Identity, namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name")
    if kind == "User":
        return name == identity.user
    if kind == "Group":
        return name in identity.groups
    if kind == "ServiceAccount":
        home = subject.get("namespace") or namespace
        return identity.user == f"system:serviceaccount:{home}:{name}"
    return False


class Authoriser:
    """Answers whether an identity may do something, as RBAC and the node authoriser would."""

    def __init__(self, roles: RoleSource) -> None:
        self._roles = roles

    def allows(self, identity: Identity, attempt: Attempt) -> bool:
        if identity.master:
            return True
        if node_access.node_of(identity) and node_access.why_not(self._roles, identity, attempt) == "":
            return True
        return any(rule_allows(rule, attempt) for rule in self.rules(identity, attempt.namespace))

    def rules(self, identity: Identity, namespace: str) -> Iterator[Obj]:
        """Every rule that the identity has: of the whole cluster, and of one namespace when it is given."""
        for binding in self._roles.rows("clusterrolebindings"):
            if any(_subject_matches(item, identity, "") for item in binding.get("subjects") or []):
                yield from self._rules_of(binding.get("roleRef") or {}, "")
        if namespace:
            for binding in self._roles.rows("rolebindings", namespace):
                if any(_subject_matches(item, identity, namespace) for item in binding.get("subjects") or []):
                    yield from self._rules_of(binding.get("roleRef") or {}, namespace)

    def _rules_of(self, reference: Obj, namespace: str) -> list[Obj]:
        plural = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
        role = self._roles.find(plural, "" if plural == "clusterroles" else namespace, reference.get("name", ""))
        return (role.get("rules") or []) if role else []

    def demand(self, identity: Identity, attempt: Attempt) -> None:
        """Raises Refusal 403 with the API's words when the identity may not."""
        if self.allows(identity, attempt):
            return
        if attempt.path:
            text = f'forbidden: User "{identity.user}" cannot {attempt.verb} path "{attempt.path}"'
            raise Refusal(403, "Forbidden", text, {})
        text, details = forbidden_text(identity, attempt), {"kind": attempt.resource}
        if node_access.node_of(identity) and (why := node_access.why_not(self._roles, identity, attempt)):
            text += f": {why}" if why != node_access.NO_RULE else ""
        for name, value in (("name", attempt.name), ("group", attempt.group)):
            if value:
                details[name] = value
        raise Refusal(403, "Forbidden", text, details)

    def demand_no_escalation(self, identity: Identity, rules: list[Obj], namespace: str, name: str, kind: str) -> None:
        """Refuses (403) to let somebody hand out rights that they do not have themselves."""
        plural = "clusterroles" if kind.startswith("Cluster") else "roles"
        if self.allows(identity, Attempt("escalate", RBAC, plural, namespace=namespace, name=name)):
            return
        for attempt in attempts_of(rules, namespace):
            if not self.allows(identity, attempt):
                text = (
                    f'{plural}.{RBAC} "{name}" is forbidden: user "{identity.user}" (groups={list(identity.groups)})'
                    " is attempting to grant RBAC permissions not currently held"
                )
                raise Refusal(403, "Forbidden", text, {"name": name, "group": RBAC, "kind": plural})

    def rules_of_reference(self, reference: Obj, namespace: str) -> list[Obj]:
        """The rules of the role that a binding refers to."""
        return self._rules_of(reference, namespace)


def attempts_of(rules: list[Obj], namespace: str) -> Iterator[Attempt]:
    """Every single right in the rules, as an attempt."""
    for rule in rules:
        for verb in rule.get("verbs") or []:
            for path in rule.get("nonResourceURLs") or []:
                yield Attempt(verb, path=path)
            for group in rule.get("apiGroups") or []:
                for resource in rule.get("resources") or []:
                    plural, _, sub = resource.partition("/")
                    for name in rule.get("resourceNames") or [""]:
                        yield Attempt(verb, group, plural, sub, namespace, name)


def forbidden_text(identity: Identity, attempt: Attempt) -> str:
    plural = f"{attempt.resource}.{attempt.group}" if attempt.group else attempt.resource
    named = f' "{attempt.name}"' if attempt.name else ""
    sub = f"/{attempt.subresource}" if attempt.subresource else ""
    where = f'in the namespace "{attempt.namespace}"' if attempt.namespace else "at the cluster scope"
    return (
        f'{plural}{named} is forbidden: User "{identity.user}" cannot {attempt.verb} resource '
        f'"{attempt.resource}{sub}" in API group "{attempt.group}" {where}'
    )


def _role(name: str, *rules: Obj, aggregate: str = "") -> Obj:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if aggregate:
        labels[f"rbac.authorization.k8s.io/aggregate-to-{aggregate}"] = "true"
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
        "rules": list(rules),
    }


def _rule(groups: str, resources: str, verbs: str) -> Obj:
    listed = [item if item != "core" else "" for item in groups.split()]
    return {"apiGroups": listed, "resources": resources.split(), "verbs": verbs.split()}


def _binding(name: str, role: str, *subjects: Obj) -> Obj:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": list(subjects),
    }


def _group(name: str) -> Obj:
    return {"kind": "Group", "apiGroup": RBAC, "name": name}


_READ = "get list watch"
_WRITE = "create delete deletecollection patch update"
_WORK_CORE = (
    "configmaps endpoints persistentvolumeclaims pods pods/log replicationcontrollers services "
    "serviceaccounts services/status pods/status events"
)
_WORK_APPS = "deployments daemonsets replicasets statefulsets deployments/scale statefulsets/scale"


def default_roles() -> list[Obj]:
    """The roles and bindings that every API server makes at its first start, as far as our objects need them."""
    view = [
        _rule("core", _WORK_CORE + " namespaces", _READ),
        _rule("apps", _WORK_APPS, _READ),
        _rule("batch", "jobs cronjobs", _READ),
        _rule("policy", "poddisruptionbudgets", _READ),
    ]
    edit = [
        _rule("core", _WORK_CORE + " secrets pods/eviction", _WRITE + " " + _READ),
        _rule("apps", _WORK_APPS, _WRITE),
        _rule("batch", "jobs cronjobs", _WRITE),
        _rule("policy", "poddisruptionbudgets", _WRITE),
        _rule("coordination.k8s.io", "leases", _WRITE + " " + _READ),
    ]
    admin = [_rule(RBAC, "roles rolebindings", _WRITE + " " + _READ)]
    public = {"nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"], "verbs": ["get"]}
    discovery = {
        "nonResourceURLs": [
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            "/healthz",
            "/livez",
            "/openapi",
            "/openapi/*",
            "/readyz",
            "/version",
            "/version/",
        ],
        "verbs": ["get"],
    }
    own = _rule("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", "create")
    me = _rule("authentication.k8s.io", "selfsubjectreviews", "create")
    everything = [_rule("*", "*", "*"), {"nonResourceURLs": ["*"], "verbs": ["*"]}]
    everyone = (_group("system:authenticated"), _group("system:unauthenticated"))
    return [
        _role("cluster-admin", *everything),
        _role("view", *view, aggregate="edit"),
        _role("edit", *view, *edit, aggregate="admin"),
        _role("admin", *view, *edit, *admin),
        _role("system:public-info-viewer", public),
        _role("system:discovery", discovery),
        _role("system:basic-user", own, me),
        _role(
            "system:auth-delegator",
            _rule("authentication.k8s.io", "tokenreviews", "create"),
            _rule("authorization.k8s.io", "subjectaccessreviews", "create"),
        ),
        _role("system:node", _rule("core", "nodes", "create get list watch")),
        _binding("cluster-admin", "cluster-admin", _group("system:masters")),
        _binding("system:public-info-viewer", "system:public-info-viewer", *everyone),
        _binding("system:discovery", "system:discovery", _group("system:authenticated")),
        _binding("system:basic-user", "system:basic-user", _group("system:authenticated")),
    ]


def subject_name(obj: Obj) -> str:
    """The name of a role or binding, for messages."""
    return str(dig(meta(obj), "name", default=""))
