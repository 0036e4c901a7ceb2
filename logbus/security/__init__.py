"""
The security of listeners, apart from the network.

* ``tls/``: keys, certificates, and the users that certificates name
"""
