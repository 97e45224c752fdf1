"""Methods that fairchain is compared with, written by us from published descriptions.

The bare network and the bare start of Python; VeriFair's stopping rule; a fixed sample with exact intervals; confidence
sequences for each group; and the bootstrap. The last three need no more than counts of each group.
"""
