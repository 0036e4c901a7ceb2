"""
Data of earlier versions, opened by this one.

* ``make_data``: has a checkout write such data
* ``golden``: what earlier commits wrote
"""
