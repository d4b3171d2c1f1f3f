"""What Trilithon decides, without doing any of it: types, rules and planners.

No I/O, no clock, no random numbers: the time and fresh identities arrive as arguments. That keeps every decision
testable by properties, lets the same planner answer the preview and the running job, and lets the workflow sandbox
pass these modules through (see docs/decisions/001-layers.md).
"""
