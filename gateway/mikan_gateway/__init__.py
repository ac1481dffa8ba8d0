"""The gateway: connects chat platforms, keeps what they said, and routes each message to its office's agent.

``platforms`` speak with the outside, ``intake`` decides what a message is, ``storage`` makes it durable, ``runtime``
owns the queues, ``agents`` the connections of agent pods, ``rendering`` what people see, ``offices`` the Kubernetes
side. They meet at the protocols of ``ports`` only; ``app`` is the one place that composes them. ``models`` is a process
of its own in the same package, and shares ``offices`` with the gateway.
"""
