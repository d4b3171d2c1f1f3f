"""Order, waiting, retry: one module per job over one shared job loop."""
