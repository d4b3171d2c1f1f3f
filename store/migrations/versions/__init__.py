"""One module per migration, `vNNNN_title.py`, in the order of their `down_revision`."""
