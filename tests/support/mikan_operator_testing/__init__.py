"""What tests of the operator share: values, a store in memory, and an operator process against a real API server."""
