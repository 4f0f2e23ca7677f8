"""The command line: `main` declares the commands, `grammar` says how they name their graph, other modules run them."""
