"""The experiments behind the paper's figures: grids of jobs that are done once and kept.

Run them from the repository with ``python -m experiments NAME --size smoke|small|full``.
"""
