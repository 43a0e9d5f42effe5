"""Show me: figures of recordings and results, and one HTML page of everything that runs left.

``figures`` and ``inspection`` draw (Matplotlib, imported late); ``gather`` finds and reads runs;
``charts`` and ``run_charts`` draw them for the page; ``summary`` and ``verdict`` put them into
sentences; ``page`` and ``templates/`` make the page.
"""
