"""How we speak to each outside world. No decisions; blocking libraries run in threads here."""
