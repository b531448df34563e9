"""The API dialects in which a client may speak to the gateway.

Inside there is one language, OpenAI's chat completions. A dialect turns a client's request into
it and the answer back, plain or streamed; sessions, limits, retries and records know nothing of
dialects.
"""
