"""What we measure, and against whom.  Run from the checkout; see README.rst."""
