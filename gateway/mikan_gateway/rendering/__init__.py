"""What people see of a run: a message that grows, and in the end the answer, whole."""
