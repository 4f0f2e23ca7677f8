"""The sample that `omnigraph demo` shows: a small research library."""
