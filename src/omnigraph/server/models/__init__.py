"""What the server takes and answers, as its description has it."""
