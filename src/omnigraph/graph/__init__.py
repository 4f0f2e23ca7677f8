"""An open graph."""
