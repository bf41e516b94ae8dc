"""Model Explorer of AI Edge: `main` is what `--extensions=castsmith.integrations.model_explorer` loads."""
