"""Server control: builds, settings, clusters, servers."""
