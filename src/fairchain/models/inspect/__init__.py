"""Inspection of a network: activations, recurrent steps, and the part after a tensor."""
