"""The command line: `mikan chat` talks to an office through the gateway's console."""
