"""A fleet that learns: federated update of a semantic codec with feature reconstruction and private uploads (P3)."""
