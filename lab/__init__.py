"""The simulated datacenter: what the product is tried against. Never imported by product code."""
