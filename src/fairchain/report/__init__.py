"""Reports from the records of an audit: one HTML page, Markdown, JUnit, model cards, comparisons of certificates.

Nothing is measured or decided here.
"""
