"""The same graphs over HTTP, for many at once."""

from omnigraph.extras import SERVER, require_extra

require_extra(SERVER, "the server")  # every module of the server is imported after this one
