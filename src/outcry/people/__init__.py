"""Users: sign-in, browser sessions, account security, and the email sent to users."""
