"""``uvicorn main:app``"""

import os

from shop import make_app

app = make_app(os.environ.get("KAFKA", "127.0.0.1:9092"))
