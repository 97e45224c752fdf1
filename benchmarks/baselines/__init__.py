"""What fairchain is compared with: the bare network, the bare start of Python, and VeriFair's stopping rule."""
