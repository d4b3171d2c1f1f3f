"""How sizes are written. Imports nothing, since the command line loads it at every start."""


def bytes_text(number: int) -> str:
    """`24 MiB`, `2 GiB`: rounded up to whole units, since a database is never smaller than it looks."""
    for unit, size in (("GiB", 1024**3), ("MiB", 1024**2)):
        if number >= size and (unit == "MiB" or number % size == 0):
            return f"{-(-number // size)} {unit}"
    return f"{-(-number // 1024)} KiB"
