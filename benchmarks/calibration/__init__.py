"""The modes of the part calibration: ways to come to a statement, each with a known truth and an unsound variant."""
