"""The models process: one OpenAI-compatible endpoint that holds provider keys, prices calls and caps offices.

Run it with ``python -m mikan_gateway.models``. What a client of it may rely on:

**Request** (``POST /v1/chat/completions``, ``Authorization: Bearer <office token>``). ``model`` is ``provider/model``.
Accepted beside it: ``messages``, ``stream``, ``tools``, ``tool_choice``, ``parallel_tool_calls``, ``temperature``,
``top_p``, ``max_tokens``, ``max_completion_tokens``, ``stop``, ``seed``, ``response_format``, ``presence_penalty``,
``frequency_penalty`` and ``reasoning_effort`` (``off`` to ``max``, mapped to what the upstream knows). Every other
field is dropped; client headers are never forwarded. A message has ``role`` (system, developer, user, assistant, tool),
``content`` (a string, null, or parts of type ``text`` and ``image_url``; images as ``data:`` URLs only, since nothing
here fetches what a model or a user names), ``name``, ``tool_calls``, ``tool_call_id`` and, for providers that sign
their thinking, ``reasoning_content`` and ``thinking_blocks`` as they came in the deltas.

**Answer**. With ``"stream": true`` server-sent events: chunks of the OpenAI form; a delta may carry
``reasoning_content`` and ``thinking_blocks``. The last chunk has no choices and holds ``usage``: ``prompt_tokens``,
``completion_tokens``, ``total_tokens``, ``prompt_tokens_details.cached_tokens``, ``cost_usd``, ``priced`` (false: no
price is known, ``cost_usd`` is 0) and, where the upstream gave no usage, ``estimated: true``. Then ``data: [DONE]``.
Lines that begin with a colon only keep the connection alive. Without ``stream``: one ``chat.completion`` with the same
``usage``.

**Errors** have the OpenAI form ``{"error": {"message", "type", "param", "code"}}`` with an HTTP status while no chunk
was sent (``retry-after`` is kept), and come as an event of the same form afterwards; then no ``[DONE]`` follows, so a
cut answer never looks whole. Codes worth telling apart:

==========================  ======  ====================================================================
code                        status  meaning
==========================  ======  ====================================================================
invalid_office_token        401     the token is malformed, forged or for another audience
office_gone                 403     the Office was deleted, made anew, or its tokens were revoked
office_cap_exceeded         402     the office spent its cap; trying again is of no use
provider_key_refused        401     the upstream refused the admin's key; trying again is of no use
context_length_exceeded     400     too many tokens: compact, then try again
model_not_found             404     unknown provider, script or model
too_many_calls              429     this office, or all, have too many calls under way; ``retry-after``
rate_limit_exceeded         429     the upstream's limit; ``retry-after`` if it named one
upstream_unreachable        502     no connection
upstream_timeout            504     connected, but silent for too long
(type) upstream_cut         event   the stream ended without a finish
==========================  ======  ====================================================================
"""
