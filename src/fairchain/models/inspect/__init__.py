"""Looking inside a network: activations, recurrent steps, and the part behind a tensor."""
