"""Adapters for other kinds of models: each module handles one kind, and imports its package only for such a model."""
