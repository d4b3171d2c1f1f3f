"""The search attributes that make a job findable in the Temporal UI. They are in clear text: no secrets."""

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from domain.contracts.jobs import SEARCH_ATTRIBUTES

CLUSTER_NAME, SITE, JOB_KIND, JOB_PHASE = (SearchAttributeKey.for_keyword(name) for name in SEARCH_ATTRIBUTES)


def for_child(cluster_name: str, site_name: str, kind: str) -> TypedSearchAttributes:
    """The attributes of a child workflow: Temporal does not hand a parent's down (facts/temporal.md 1.5)."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(CLUSTER_NAME, cluster_name),
            SearchAttributePair(SITE, site_name),
            SearchAttributePair(JOB_KIND, kind),
        ]
    )
