"""What benchkit costs, and how right it is; run from the project's directory."""
