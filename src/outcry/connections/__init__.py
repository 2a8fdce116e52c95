"""Users' connections to brokers and data vendors, and the vault that encrypts their credentials."""
