"""Users: sign-in, sessions of browsers, security and the messages sent to them."""
