"""The same graphs over HTTP, for many at once."""
