"""Chat platforms: each turns native messages into `InboundMessage` and shows what the renderer asks for."""
