"""Changes of a schema, and of the data with it."""
