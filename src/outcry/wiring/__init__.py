"""The one place where the object graph is built."""

from outcry.wiring.house import LOG_FOLDER, House, SystemClock, open_house
from outcry.wiring.secret import SECRET_FILE, MissingSecret

__all__ = ["LOG_FOLDER", "SECRET_FILE", "House", "MissingSecret", "SystemClock", "open_house"]
