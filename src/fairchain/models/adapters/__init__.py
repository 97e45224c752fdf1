"""Other kinds of models: each module knows one kind, and imports its package only when such a model is at hand."""
