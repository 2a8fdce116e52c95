"""Live feed of ProjectX, the platform of TopstepX and other firms: trades over SignalR, history as one-second bars."""
