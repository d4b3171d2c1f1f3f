"""Workflows: order, waiting and retry. They import domain only and call activities by their wire names."""
