"""Worker processes: which queues, which workflows and activities, which limits."""
