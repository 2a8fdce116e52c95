"""ProjectX, the platform of TopstepX and other firms: trades over a SignalR hub, history as bars of a second."""
