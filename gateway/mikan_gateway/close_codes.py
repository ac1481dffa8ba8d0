"""WebSocket close codes (RFC 6455 section 7.4; 4000 and up are ours)."""

SERVICE_RESTART = 1012
TRY_AGAIN_LATER = 1013
PROTOCOL_FAULT = 4400
"""A frame that is not of the protocol, or an operation number is missing."""
TOKEN_REFUSED = 4401
"""The office is gone, or its token has been revoked."""
SUPERSEDED = 4409
"""Another connection or agent of the office has taken over."""
FLOOD = 4429
"""More frames or bytes than any agent has reason to send."""
