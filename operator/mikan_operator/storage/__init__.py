"""The API server: requests and the translation of its errors. Decides nothing."""
