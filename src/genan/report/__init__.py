"""Show me: figures of recordings and results (``figures``, ``inspection``), what to do with an
evaluation (``verdict``), and one HTML page of everything that runs left: ``gather`` finds and reads
them, ``charts`` draws, ``page`` puts it together with ``templates/``."""
