"""What a person reads: one page that needs nothing else, Markdown for a pull request, JUnit for a build server.

Everything here takes plain values and gives text; nothing is measured or decided in this room.
"""
