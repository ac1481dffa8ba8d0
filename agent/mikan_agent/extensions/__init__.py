"""Extensions: trusted code of an admin's choice that runs in the agent process, beside the turn loop.

`api` is what authors import; `loader` is what the agent calls. An extension's error, hang or wrong answer is logged,
and never ends a run. Names and semantics: the seeds, "Extension interface"; for authors: ``docs/extensions.md``.
"""
