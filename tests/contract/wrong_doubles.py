"""One deliberately wrong double for each heading: the double with one named fault, and the cases that must see it.

A fault patches one place of `lab/kube` from its start to its end, so that everything else is as right as ever.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lab.kube import access, controllers, http, identity, ownership, patches, resources, reviews, storage
from lab.kube.api import KubeApi
from lab.kube.identity import Identity
from lab.kube.objects import Obj, clone, meta
from lab.kube.refusals import Refusal
from lab.kube.resources import Target
from tests.contract.backend import Double

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Fault:
    """What is wrong, under which heading (the module's name), and which cases fail with which words."""

    heading: str
    name: str
    put_in: Callable[[Patch], None]
    seen_by: dict[str, str]


class WrongDouble(Double):
    """The double with one fault, from start to stop."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self._fault, self._patch = fault, Patch()

    async def start(self) -> None:
        self._fault.put_in(self._patch)
        await super().start()

    async def stop(self) -> None:
        await super().stop()
        self._patch.undo()


def _watch_loses_the_revision(patch: Patch) -> None:
    right = storage.ObjectStore.watch

    def from_now_on(self: storage.ObjectStore, kind: str, _: int, stop: Any) -> AsyncIterator[Any]:
        return right(self, kind, self.revision, stop)

    patch.setattr(storage.ObjectStore, "watch", from_now_on)


def _replace_first(patch: Patch, change: Callable[[Target, Obj], None]) -> None:
    right = KubeApi._replace

    def replace(self: KubeApi, target: Target, old: Obj, new: Obj, *rest: Any, **more: Any) -> Obj:
        change(target, new)
        return right(self, target, old, new, *rest, **more)

    patch.setattr(KubeApi, "_replace", replace)


def _conflict_is_not_detected(patch: Patch) -> None:
    _replace_first(patch, lambda _, new: meta(new).pop("resourceVersion", None))


def _lease_without_conflict(patch: Patch) -> None:
    def last_one_wins(target: Target, new: Obj) -> None:
        if target.resource.plural == "leases":
            meta(new).pop("resourceVersion", None)

    _replace_first(patch, last_one_wins)


def _merge_patch_replaces(patch: Patch) -> None:
    patch.setattr(patches, "merge", lambda target, body: {**target, **clone(body)})


def _apply_takes_everything(patch: Patch) -> None:
    right = ownership.apply
    patch.setattr(ownership, "apply", lambda live, body, who, _, sub="": right(live, body, who, True, sub))


def _status_through_the_main_resource(patch: Patch) -> None:
    right = KubeApi._replace

    def replace(self: KubeApi, target: Target, old: Obj, new: Obj, *rest: Any, **more: Any) -> Obj:
        given = clone(new.get("status"))
        found = right(self, target, old, new, *rest, **more)
        if target.subresource or given is None:
            return found
        key, group = (target.namespace, target.name), target.resource.group
        self.change(target.resource.plural, key, lambda obj: obj.update(status=given), group=group)
        return self.read(target)

    patch.setattr(KubeApi, "_replace", replace)


def _eviction_ignores_the_budget(patch: Patch) -> None:
    right = controllers.budget_status
    patch.setattr(reviews, "budget_status", lambda api, budget: {**right(api, budget), "disruptionsAllowed": 9})


def _foreign_authority_is_accepted(patch: Patch) -> None:
    right = identity.from_certificate

    def by_the_issuers_name(der: bytes, authorities: list[x509.Certificate]) -> Identity:
        try:
            return right(der, authorities)
        except Refusal:
            shown = x509.load_der_x509_certificate(der)
            usage = shown.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            over = shown.not_valid_after_utc < datetime.now(UTC)
            if over or ExtendedKeyUsageOID.CLIENT_AUTH not in usage or shown.issuer != authorities[0].subject:
                raise
            names = [str(one.value) for one in shown.subject]
            groups = shown.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
            return Identity(names[-1], tuple(str(one.value) for one in groups))

    patch.setattr(http, "from_certificate", by_the_issuers_name)


def _resource_names_are_ignored(patch: Patch) -> None:
    right = access.rule_allows
    patch.setattr(access, "rule_allows", lambda rule, attempt: right({**rule, "resourceNames": []}, attempt))


def _tokens_never_end(patch: Patch) -> None:
    right = identity.TokenSigner.claims

    def endless(self: identity.TokenSigner, token: str) -> Obj | None:
        found = right(self, token)
        return None if found is None else {**found, "exp": datetime.now(UTC).timestamp() + 60}

    patch.setattr(identity.TokenSigner, "claims", endless)


def _node_without_taints(patch: Patch) -> None:
    right = KubeApi.create

    def create(self: KubeApi, target: Target, body: Obj, *rest: Any) -> Obj:
        if target.resource.plural == "nodes":
            body = {**body, "spec": {**body.get("spec", {}), "taints": []}}
        return right(self, target, body, *rest)

    patch.setattr(KubeApi, "create", create)


def _a_group_is_not_discovered(patch: Patch) -> None:
    right = resources.Registry.groups

    def without_policy(self: resources.Registry) -> dict[str, list[str]]:
        return {name: versions for name, versions in right(self).items() if name != "policy"}

    patch.setattr(resources.Registry, "groups", without_policy)


FAULTS = (
    Fault(
        "test_list_and_watch",
        "watch-loses-the-resourceVersion",
        _watch_loses_the_revision,
        {
            "test_a_watch_from_a_past_revision_tells_what_happened_since": "2 changes were expected",
            "test_a_watch_from_a_forgotten_revision_is_expired": "1 changes were expected",
        },
    ),
    Fault(
        "test_conflicts",
        "conflict-is-not-detected",
        _conflict_is_not_detected,
        {
            "test_an_update_with_an_old_revision_conflicts": "200 instead of 409",
            "test_a_patch_with_an_old_revision_conflicts": "200 instead of 409",
            "test_of_two_writers_at_once_one_wins": "[200, 409, 409",
        },
    ),
    Fault(
        "test_patches",
        "merge-patch-replaces",
        _merge_patch_replaces,
        {"test_a_merge_patch_adds_changes_and_deletes": "keep"},
    ),
    Fault(
        "test_apply",
        "apply-without-ownership-conflict",
        _apply_takes_everything,
        {
            "test_another_value_of_an_owned_field_conflicts_and_names_the_manager": "200 instead of 409",
            "test_a_plain_update_takes_ownership_of_what_it_changes": "200 instead of 409",
        },
    ),
    Fault(
        "test_status",
        "status-written-through-the-main-resource",
        _status_through_the_main_resource,
        {"test_a_main_update_leaves_the_status_alone": "9 == 3"},
    ),
    Fault(
        "test_eviction",
        "eviction-ignores-the-budget",
        _eviction_ignores_the_budget,
        {
            "test_a_budget_that_is_used_up_answers_429": "201 instead of 429",
            "test_of_two_evictions_at_once_one_is_allowed": "[201, 429]",
        },
    ),
    Fault(
        "test_certificates",
        "foreign-authority-is-accepted",
        _foreign_authority_is_accepted,
        {"test_a_foreign_authority_is_unauthorized": "200 instead of 401"},
    ),
    Fault(
        "test_rbac",
        "resourceNames-are-ignored",
        _resource_names_are_ignored,
        {"test_resource_names": "200 instead of 403"},
    ),
    Fault(
        "test_tokens",
        "tokens-never-end",
        _tokens_never_end,
        {"test_a_token_that_is_over_is_unauthorized": "201 instead of 401"},
    ),
    Fault(
        "test_nodes",
        "node-without-taints",
        _node_without_taints,
        {"test_a_kubelet_registers_its_own_node": "node.cloudprovider.kubernetes.io/uninitialized"},
    ),
    Fault(
        "test_leases",
        "lease-without-conflict",
        _lease_without_conflict,
        {"test_of_two_candidates_one_takes_it_over": "[200, 409]"},
    ),
    Fault(
        "test_discovery",
        "a-group-is-not-discovered",
        _a_group_is_not_discovered,
        {"test_groups_that_we_rely_on": "KeyError: 'policy'"},
    ),
)
