"""Tables and small files on disk: the only package that knows Lance."""
