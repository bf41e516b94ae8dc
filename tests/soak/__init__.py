"""Long random runs, by hand or at night; the tests draw a small sample of the same cases."""
