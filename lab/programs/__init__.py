"""Programs of the real-nodes laboratory, built from their Go modules into a cache: `python -m lab.programs build`."""
