"""`python -m cli` is `trilithon`."""

from cli.main import main

main()
