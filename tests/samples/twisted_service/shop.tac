"""``PYTHONPATH=. twistd -ny shop.tac``"""

import os

from twisted.application.service import Application
from twisted.application.strports import service
from twisted.internet import reactor

from shop import Shop

application = Application("shop")
shop = Shop(reactor, os.environ.get("KAFKA", "127.0.0.1:9092"))
shop.setServiceParent(application)
port = os.environ.get("PORT", "8000")
service(f"tcp:{port}:interface=127.0.0.1", shop.site).setServiceParent(application)
