"""Speed, measured: `make bench`. Figures, never asserts; docs/benchmarks.md keeps them with machine and date."""
