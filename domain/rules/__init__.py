"""The rules of a cluster's spec, one module for each page of the wizard. `domain.validation` runs them all."""
