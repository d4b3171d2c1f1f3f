"""`trilithon`: the command line over the HTTP API, and the way to start the platform's processes."""
