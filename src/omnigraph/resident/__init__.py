"""Tables of an open graph in memory: columns, ids and edges, moved forward by what each commit changed."""
