"""The command line: `main` declares the commands, every other module runs one of them."""
