"""The one place where the object graph is built."""

from outcry.app.secret import SECRET_FILE, MissingSecret
from outcry.app.service import LOG_FOLDER, House, SystemClock, open_house

__all__ = ["LOG_FOLDER", "SECRET_FILE", "House", "MissingSecret", "SystemClock", "open_house"]
