module trilithon.lab/pause

go 1.26.0
