"""The HTTP face: sign-in, resources, events, the built pages."""
