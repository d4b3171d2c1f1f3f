"""Shapes of requests and answers: the source of the OpenAPI document, from which pages and command line are made.

One module per thing; words and casing (snake_case) are those of `domain/`, whose types are used as they are wherever
what we keep is what we show.
"""
