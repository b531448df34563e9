"""Git over HTTP: ``git push``, ``fetch`` and ``clone`` of the repositories that we host."""
