"""A stateful double of the Kubernetes API: real TLS, real identities, objects that are kept.

It believes what its author believed. tests/contract/ holds it against a real kube-apiserver, which is the judge
(docs/decisions/011-kubernetes-double.md).
"""
