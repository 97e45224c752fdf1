"""Makes `tests` a package that every test file can import its builders from."""
