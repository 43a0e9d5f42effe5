"""Show me: pictures of recordings and results. matplotlib is imported only when one is drawn."""
