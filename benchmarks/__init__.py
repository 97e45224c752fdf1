"""Measurements behind the claims, and the training of the example networks. Not part of the package."""
