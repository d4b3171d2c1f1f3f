"""The Temporal client's side: start, signal, decide and describe jobs; the dispatcher that empties the outbox."""
