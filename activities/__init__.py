"""One effect each: look, act, look again."""
