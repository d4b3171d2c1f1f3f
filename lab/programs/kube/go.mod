module trilithon.lab/kube

go 1.26.0
