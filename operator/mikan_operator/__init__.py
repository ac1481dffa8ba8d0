"""The operator: turns Office and Vault objects into pods, access rules and conditions."""
