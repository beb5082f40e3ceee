"""What a person sees: tables, plots, live view, notebooks, reports."""
