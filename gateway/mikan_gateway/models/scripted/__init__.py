"""The scripted model: a deterministic stand-in for a model, for a first run without a key, for tests and benchmarks.

It says in every answer that it is scripted. It keeps no state: what it does follows from the messages it is given, so
that the same conversation always gives the same stream. A **script** is a YAML (or JSON) file::

    rules:
      - match: 'run:\\s*(?P<command>.+)'     # regular expression, searched in the last user message, any case
        steps:
          - calls: [{tool: bash, arguments: {command: '{command}'}}]
          - say: 'It printed: {result}'
      - match: ''                           # matches everything
        steps: [{say: Hello}]

The first rule that matches plays. Its **steps** are the model's turns: the first answers the user, each further one the
tool results before it; ``repeat: 3`` or ``repeat: '{count}'`` makes one step several turns. After the last step comes
a fixed closing sentence. A step has

========== ===========================================================================================================
say        text to answer with
think      text to think aloud before (``reasoning_content``)
calls      tool calls, all in one turn: ``tool`` and ``arguments`` (an object)
tokens     answer with so many tokens of filler, one in each chunk (a number or a template)
delayMs    wait before each chunk (a number or a template)
error      ``{status, message, code?, retryAfter?}``: fail like an upstream
cut        true: break the stream off after what this step says
========== ===========================================================================================================

Templates know the named groups of ``match``, ``{result}`` (the last tool result), ``{results}`` (all of this turn's)
and ``{turn}`` (1, 2, …). ``{{`` is a brace.
A tool that the caller does not offer is not called; the answer says so.

The built-in script is ``scripted/demo``. A provider of kind ``scripted`` may name a directory of more (``scripts``):
``<dir>/<name>.yaml`` answers as ``<provider>/<name>``. Scripts are an admin's: their expressions run as they are.
"""
