"""Studies: the experiments behind the paper's figures, as grids of jobs that are done once and
kept.
"""
