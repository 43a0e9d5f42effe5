"""Show me: figures of recordings and results, and one HTML page of everything that runs left.

``figures`` and ``inspection`` draw (Matplotlib, imported late); ``gather`` finds and reads runs;
``charts`` draws them for the page, which ``page`` makes with ``templates/``; ``verdict`` says what
to do with an evaluation.
"""
