"""Worker processes: which task queues, which workflows, which limits."""
