"""Request and response: a program asks a running query for its next time step."""
