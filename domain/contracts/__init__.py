"""What crosses the Temporal server: names, inputs, results and ids of workflows and activities.

Wire names are explicit and never change once released; the Python names may. Inputs are references (ids), never specs
or secrets: an activity reads the store when it runs, so that a late start still acts on what is wanted now.
"""
